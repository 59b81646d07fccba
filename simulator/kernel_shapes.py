"""The kernel shapes of a model on a number of GPUs, its drafters and adapters included."""

from hwprofiles.kernel_shapes import ExpertsShape, KernelShapes
from simulator.model import Adapter, LayerGroup, ModelSpec, Stack
from simulator.work import fused_linears


def kernel_shapes(model: ModelSpec, tensor_parallel: int = 1) -> KernelShapes:
    """Everything that a pass of *model* or of its drafters asks kernels for, on each GPU."""
    shapes = KernelShapes()
    for stack in (model, *model.drafters.values()):
        shapes |= _vocabulary(stack, tensor_parallel)
        for group in stack.layers:
            shapes |= _layer(stack, group, tensor_parallel)
    for adapter in model.adapters.values():
        for group in model.layers:
            shapes |= _adapter(model, group, adapter, tensor_parallel)
    return shapes


def _vocabulary(stack: Stack, tensor_parallel: int) -> KernelShapes:
    entries = stack.vocab // tensor_parallel
    widths = frozenset({stack.hidden})
    return KernelShapes(vocabularies=frozenset({(entries, stack.hidden)}), widths=widths)


def _layer(stack: Stack, group: LayerGroup, tensor_parallel: int) -> KernelShapes:
    attention, experts = group.attention, group.experts
    linears = {(int(each.n), int(each.k)) for each in fused_linears(stack, group, tensor_parallel)}
    routed = set()
    widths = {group.ffn // tensor_parallel} if group.ffn else set[int]()
    if experts:
        ffn = experts.ffn // tensor_parallel
        routed.add(ExpertsShape(stack.hidden, ffn, experts.top_k, experts.count))
        linears.add((experts.count, stack.hidden))
        if experts.shared:
            linears |= {
                (2 * experts.shared * ffn, stack.hidden),
                (stack.hidden, experts.shared * ffn),
            }
    heads = (
        max(1, attention.query_heads // tensor_parallel),
        max(1, attention.kv_heads // tensor_parallel),
        attention.head_dim,
    )
    return KernelShapes(
        linears=frozenset(linears),
        heads=frozenset({heads}),
        experts=frozenset(routed),
        widths=frozenset(widths),
    )


def _adapter(
    model: ModelSpec, group: LayerGroup, adapter: Adapter, tensor_parallel: int
) -> KernelShapes:
    linears = set()
    for linear in fused_linears(model, group, tensor_parallel):
        hit = [n for projection, n in linear.columns.items() if projection in adapter.targets]
        if hit:
            linears.add((adapter.rank * len(hit), int(linear.k)))
            linears.add((int(sum(hit)), adapter.rank))
    return KernelShapes(linears=frozenset(linears))
