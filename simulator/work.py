"""Work: a pass over a batch becomes operations with flop, bytes and link bytes; no hardware here.

All loads are arrays [rows, steps]; every operation's counts are arrays [steps] per GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from simulator.model import Adapter, Attention, Drafter, LayerGroup, Projection, Stack
from simulator.ops import (
    FloatArray,
    Op,
    Placement,
    StepLoad,
    all_reduce,
    elementwise,
    gemm,
)
from simulator.schedule import ADAPTER, CONTEXT, FEATURES, LOGITS, MOVED, QUERY

# Float32 probabilities are written and read once more for the maximum.
PROBABILITY_BYTES = 4.0 + 4.0


# Operations that do not depend on one total of the batch.
ROW_BY_ROW = ("attention", "prefill attention", "kv copies")


def _attention(group: LayerGroup, load: StepLoad, placement: Placement) -> Iterator[Op]:
    """Queries over the cached prefix and their own tokens; a window limits what is read."""
    spec = group.attention
    query, context = load.loads[QUERY].astype(float), load.loads[CONTEXT].astype(float)
    reach = _reach(query, context, spec.window_tokens)
    seen = _causal(query, context, spec.window_tokens) if load.prefill else reach
    length = kernel_keys(query, context, spec.window_tokens, prefill=load.prefill)
    query_heads = spec.query_heads / placement.tensor_parallel
    kv_heads = max(1.0, spec.kv_heads / placement.tensor_parallel)
    element = placement.precision.kv_bytes
    read = 2 * kv_heads * spec.head_dim * element * np.where(query > 0, reach, 0).sum(axis=0)
    activation, tokens = placement.precision.activation_bytes, query.sum(axis=0)
    asked = activation * 2 * query_heads * spec.head_dim * tokens
    # The kernel also takes the queries' own keys and values and stores them.
    stored = 2 * kv_heads * spec.head_dim * (activation + element) * tokens
    yield Op(
        name="attention",
        kernel="attention_prefill" if load.prefill else "attention_extend",
        count=group.count,
        inputs={
            "query_tokens": query,
            "kv_tokens": length,
            "query_heads": query_heads,
            "kv_heads": kv_heads,
            "head_dim": spec.head_dim,
            "kv_element_bytes": element,
        },
        flop=group.count * 4 * query_heads * spec.head_dim * (query * seen).sum(axis=0),
        bytes=group.count * (read + asked + stored),
        link_bytes=np.zeros(query.shape[1:]),
        precision=placement.precision.computed,
    )
    if placement.kv_traffic_factor > 1 and not load.prefill:
        yield elementwise("kv copies", group.count, (placement.kv_traffic_factor - 1) * read)


def _reach(query: FloatArray, context: FloatArray, window_tokens: int | None) -> FloatArray:
    """Keys that any query sees: the prefix, or what the window of the first leaves, and its own."""
    reach = context + query
    return np.minimum(reach, window_tokens + query - 1) if window_tokens else reach


def kernel_keys(
    query: FloatArray, context: FloatArray, window_tokens: int | None, *, prefill: bool
) -> FloatArray:
    """Keys of each row as its attention kernel is priced, in the shape of *query*.

    A prompt with a window costs what an unwindowed one of as many pairs does.
    """
    if prefill and window_tokens:
        return _causal(query, context, window_tokens) + (query - 1) / 2
    return _reach(query, context, window_tokens)


def _causal(query: FloatArray, context: FloatArray, window_tokens: int | None) -> FloatArray:
    """Keys that a query sees on average: query i sees context + i + 1, at most the window."""
    if window_tokens is None:
        return context + (query + 1) / 2
    growing = np.clip(window_tokens - context, 0, query)
    pairs = growing * context + growing * (growing + 1) / 2
    pairs += (query - growing) * window_tokens
    seen: FloatArray = pairs / np.maximum(query, 1)
    return seen


@dataclass(frozen=True)
class Linear:
    """Projections that run as one GEMM of *k* input columns on one GPU."""

    name: str
    k: float
    columns: dict[Projection, float]
    """Output columns of each, in order."""

    @property
    def n(self) -> float:
        """Output columns of all."""
        return sum(self.columns.values())


def fused_linears(stack: Stack, group: LayerGroup, tensor_parallel: int) -> list[Linear]:
    """The dense GEMMs of a layer as engines fuse them: qkv, o, gate_up, down."""
    attention: Attention = group.attention
    kv_split = min(tensor_parallel, attention.kv_heads)
    shapes = {p: (n, k) for p, n, k in stack.linear_shapes(group)}
    qkv: dict[Projection, float] = {"q": attention.query_width / tensor_parallel}
    for projection in ("k", "v"):
        if projection in shapes:
            qkv[projection] = attention.kv_width / kv_split
    linears = [
        Linear("qkv", shapes["q"][1], qkv),
        Linear("o", shapes["o"][1] / tensor_parallel, {"o": shapes["o"][0]}),
    ]
    if group.ffn:
        width = group.ffn / tensor_parallel
        linears.append(Linear("gate_up", stack.hidden, {"gate": width, "up": width}))
        linears.append(Linear("down", width, {"down": stack.hidden}))
    return linears


def _adapter_ops(
    adapter: Adapter, linear: Linear, group: LayerGroup, load: StepLoad, placement: Placement
) -> Iterator[Op]:
    """Beside a GEMM, x A^T then B: [rank x targets, k] and [n, rank]; never quantised."""
    hit = [columns for p, columns in linear.columns.items() if p in adapter.targets]
    if hit:
        tokens, precision = load.total(ADAPTER), placement.precision.unquantised
        down = (adapter.rank * len(hit), linear.k)
        yield gemm("adapter", group.count, tokens, down, precision)
        up = gemm("adapter", group.count, tokens, (sum(hit), adapter.rank), precision)
        # Each projection reads its own part of what the first product wrote.
        parts = group.count * tokens * adapter.rank * (len(hit) - 1) * precision.activation_bytes
        yield replace(up, bytes=up.bytes + parts)


def _experts(
    stack: Stack, group: LayerGroup, tokens: FloatArray, placement: Placement
) -> Iterator[Op]:
    """Router, the routed experts that are hit, and the shared experts."""
    experts = group.experts
    if experts is None:
        return
    precision, width = placement.precision, experts.ffn / placement.tensor_parallel
    router = (experts.count, float(stack.hidden))
    yield gemm("router", group.count, tokens, router, precision.unquantised)
    active = placement.routing.distinct(experts.count, experts.top_k, tokens)
    weights = 3 * stack.hidden * width
    visits = tokens * experts.top_k
    # Products, SwiGLU and combination each read what the one before wrote.
    between = precision.activation_bytes * (
        visits * (3 * stack.hidden + 6 * width) + tokens * stack.hidden
    )
    yield Op(
        name="experts",
        kernel="moe",
        count=group.count,
        inputs={
            "tokens": tokens,
            "active_experts": active,
            "hidden": stack.hidden,
            "expert_ffn": width,
            "top_k": experts.top_k,
            "experts": experts.count,
        },
        flop=group.count * 2 * visits * weights,
        bytes=group.count * (weights * active * precision.weight_bytes + between),
        link_bytes=np.zeros_like(tokens),
        precision=precision.weights,
    )
    if experts.shared:
        shared = experts.shared * width
        yield gemm("shared expert", group.count, tokens, (2 * shared, stack.hidden), precision)
        row = 3 * precision.activation_bytes * shared
        yield elementwise(
            "swiglu", group.count, row * tokens, row, f"{placement.precision.computed} swiglu"
        )
        yield gemm("shared expert", group.count, tokens, (stack.hidden, shared), precision)


def _layer_ops(
    stack: Stack, group: LayerGroup, load: StepLoad, placement: Placement, adapter: Adapter | None
) -> Iterator[Op]:
    """Every operation of *group*'s layers."""
    tokens = load.total(QUERY)
    tp, count = placement.tensor_parallel, group.count
    for linear in fused_linears(stack, group, tp):
        yield gemm(linear.name, count, tokens, (linear.n, linear.k), placement.precision)
        if adapter is not None:
            yield from _adapter_ops(adapter, linear, group, load, placement)
    kv_columns = 2 * max(1.0, group.attention.kv_heads / tp) * group.attention.head_dim
    if isinstance(stack, Drafter) and stack.kind == "dflash":
        # Features of the tokens accepted last enter every layer as keys and values.
        shape = (kv_columns, float(stack.hidden))
        yield gemm("context kv", count, load.total(FEATURES), shape, placement.precision)
    yield from _attention(group, load, placement)
    if load.chunks is not None:
        for op in _attention(group, StepLoad(load.chunks, prefill=True), placement):
            yield replace(op, name="prefill attention")
    moved_bytes = 2 * kv_columns * placement.precision.kv_bytes * load.total(MOVED)
    # Old and new places overlap, so the entries are gathered aside and then scattered.
    yield elementwise("kv compaction", 2 * count, moved_bytes)
    yield from _experts(stack, group, tokens, placement)
    yield from _layer_elementwise(stack, group, tokens, placement)
    hidden_bytes = placement.precision.activation_bytes * stack.hidden * tokens
    yield from all_reduce("all-reduce", 2 * count, hidden_bytes, tp)


def _layer_elementwise(
    stack: Stack, group: LayerGroup, tokens: FloatArray, placement: Placement
) -> Iterator[Op]:
    """The kernels between GEMMs, one block of threads per token."""
    count, attention = group.count, group.attention
    tensor_parallel, element = placement.tensor_parallel, placement.precision.activation_bytes
    hidden = element * stack.hidden
    # Residual add fused with RMSNorm: two reads and two writes, and the sum read once more.
    yield elementwise(
        "norm", 2 * count, 4 * hidden * tokens, 5 * hidden, f"{placement.precision.computed} norm"
    )
    kv_heads = max(1.0, attention.kv_heads / tensor_parallel)
    heads = attention.query_heads / tensor_parallel + kv_heads
    rotated = element * heads * attention.head_dim
    # Compiled engines fuse the normalisation of queries and keys, where there is one, with this.
    yield elementwise(
        "rotary", count, 2 * rotated * tokens, 2 * rotated, f"{placement.precision.computed} rotary"
    )
    if group.ffn:
        row = 3 * element * group.ffn / tensor_parallel
        yield elementwise(
            "swiglu", count, row * tokens, row, f"{placement.precision.computed} swiglu"
        )


def _head_ops(stack: Stack, load: StepLoad, placement: Placement) -> Iterator[Op]:
    """LM head on the rows that need it, then soft-max, confidence and arg-max over them."""
    rows = load.total(LOGITS)
    ranks = placement.tensor_parallel if placement.sharded_lm_head else 1
    shape = (stack.vocab / ranks, float(stack.hidden))
    # No engine here quantises LM heads.
    yield replace(
        gemm("lm head", 1, rows, shape, placement.precision.unquantised), kernel="lm_head"
    )
    # A ring all-gather moves half of what an all-reduce of the same message does.
    logits_bytes = placement.precision.activation_bytes * stack.vocab * rows
    yield from all_reduce("logits gather", 1, logits_bytes / 2, ranks)
    confidence_bytes = logits_bytes + PROBABILITY_BYTES * stack.vocab * rows
    yield elementwise(
        "confidence", 1, confidence_bytes, operation=f"{placement.precision.computed} confidence"
    )


def pass_ops(
    stack: Stack, load: StepLoad, placement: Placement, adapter: Adapter | None = None
) -> list[Op]:
    """The operations of one launch of *stack* over *load* on each GPU; weights are read once."""
    ops: list[Op] = []
    features = getattr(stack, "fusion_input", None)
    if features:
        shape = (stack.hidden, float(features))
        ops.append(gemm("fusion", 1, load.total(FEATURES), shape, placement.precision))
    element = placement.precision.activation_bytes
    hidden_bytes = element * stack.hidden * load.total(QUERY)
    ops.append(elementwise("embedding", 1, 2 * hidden_bytes))
    for group in stack.layers:
        ops.extend(_layer_ops(stack, group, load, placement, adapter))
    row_bytes = 3 * element * stack.hidden
    ops.append(
        elementwise(
            "final norm", 1, 2 * hidden_bytes, row_bytes, f"{placement.precision.computed} norm"
        )
    )
    ops.extend(_head_ops(stack, load, placement))
    return ops
