"""The work that the simulator prices against torch's FLOP counter and the sizes of real tensors."""

import dataclasses
from collections import defaultdict
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.visibility import whole
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import RandomDecoder
from simulator.library import MODELS
from simulator.model import Adapter, LayerGroup, ModelSpec, Projection, Stack
from simulator.ops import Op, Placement, Precision, StepLoad
from simulator.routing import Routing
from simulator.schedule import loads
from simulator.work import pass_ops
from tests.kernels_ref.kernel_by_kernel import KernelByKernel, Rows, router_of
from tests.kernels_ref.ledger import counted_flop

# Integers in double precision: any difference that is not rounding shows.
EXACT = 1e-12

RAGGED = Rows(query=(4, 1, 7), context=(9, 0, 30), logits=5, adapter=8, features=6, moved=3)
ONE_TOKEN = Rows(query=(1,), context=(20,), logits=1, adapter=1, features=1, moved=1)
BATCHES = {"ragged": RAGGED, "one token": ONE_TOKEN}


def shrunk_group(group: LayerGroup) -> LayerGroup:
    """At most two layers, widths a fraction of theirs, heads as they are."""
    spec, experts = group.attention, group.experts
    window = spec.window_tokens and 6
    attention = dataclasses.replace(spec, head_dim=spec.head_dim // 32, window_tokens=window)
    if experts:
        experts = dataclasses.replace(experts, count=experts.count // 8, ffn=experts.ffn // 64)
    ffn = group.ffn and group.ffn // 64
    return LayerGroup(min(group.count, 2), attention, ffn, experts)


def shrunk(stack: Stack) -> Any:
    """*stack* with its architecture and a fraction of its widths."""
    widths = ("hidden", "attention_input", "fusion_input")
    small: dict[str, Any] = {
        name: value // 64 for name in widths if (value := getattr(stack, name, None))
    }
    layers = tuple(shrunk_group(group) for group in stack.layers)
    return dataclasses.replace(stack, layers=layers, vocab=stack.vocab // 4096 * 8, **small)


def stacks() -> dict[str, Any]:
    """Every shipped model and drafter, small, under its name."""
    models = {name: MODELS.get(name) for name in MODELS.names()}
    drafters = {
        f"{name} {kind}": drafter
        for name, model in models.items()
        for kind, drafter in model.drafters.items()
    }
    return {name: shrunk(stack) for name, stack in (models | drafters).items()}


STACKS = stacks()


def step_load(rows: Rows, *, prefill: bool = False) -> StepLoad:
    """The same batch as the simulator takes it, in one step; its first row has all other loads."""
    arrays = []
    for index, (query, context) in enumerate(zip(rows.query, rows.context, strict=True)):
        others = (
            {name: getattr(rows, name) for name in ("logits", "adapter", "features", "moved")}
            if index == 0
            else {}
        )
        arrays.append(loads(1, query=query, context=context, **others))
    return StepLoad(np.stack(arrays, axis=1), prefill=prefill)


def placement(hit: list[int], dtype: torch.dtype = torch.bfloat16) -> Placement:
    """One GPU; of its experts as many are hit as the kernels saw on average."""
    fixed = Routing(kind="fixed", active_experts=float(np.mean(hit))) if hit else Routing()
    fp32 = Precision("fp32", "fp32")
    return Placement(routing=fixed, precision=fp32 if dtype == torch.float32 else Precision())


def summed(ops: list[Op], what: str) -> dict[str, float]:
    """Flop or bytes of *ops* by name, the last norm with the others."""
    total: dict[str, float] = defaultdict(float)
    for op in ops:
        total["norm" if op.name == "final norm" else op.name] += float(getattr(op, what)[0])
    return dict(total)


def adapter_of(stack: Stack) -> Adapter | None:
    """The adapter of a model that has one, at a rank that suits these widths."""
    adapters = list(getattr(stack, "adapters", {}).values())
    return dataclasses.replace(adapters[0], rank=3) if adapters else None


@dataclasses.dataclass(frozen=True)
class Counts:
    """What kernels did (flop and bytes by name), and what the simulator says of them."""

    run: KernelByKernel
    ops: list[Op]

    def both(self, what: str) -> tuple[dict[str, float], dict[str, float]]:
        """The simulator's flop or bytes, and those measured."""
        counted = getattr(self.run.ledger, what)
        return summed(self.ops, what), {name: float(n) for name, n in counted.items()}


def counts(
    stack: Stack, rows: Rows, adapter: Adapter | None, dtype: torch.dtype = torch.bfloat16
) -> Counts:
    """Run *stack* kernel by kernel, and price it."""
    run = KernelByKernel(rows, dtype, adapter)
    run.stack(stack)
    spread = placement(run.experts_hit, dtype)
    return Counts(run, pass_ops(stack, step_load(rows), spread, adapter))


@cache
def shipped(name: str, batch: str) -> Counts:
    """A shipped stack, with its adapter if it has one; run once for all tests."""
    return counts(STACKS[name], BATCHES[batch], adapter_of(STACKS[name]))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", STACKS)
def test_flop_are_those_of_the_counter(name: str, batch: str) -> None:
    """Operation by operation, every shipped model and drafter does the flop that torch counts."""
    found, counted = shipped(name, batch).both("flop")

    assert found == pytest.approx(counted, rel=EXACT)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", STACKS)
def test_bytes_are_those_of_the_tensors(name: str, batch: str) -> None:
    """Operation by operation, as many bytes move as the tensors read and written hold."""
    found, counted = shipped(name, batch).both("bytes")
    # Has a test of its own.
    for each in (found, counted):
        each.pop("adapter", None)

    assert found == pytest.approx(counted, rel=EXACT)


def test_bytes_double_in_float32() -> None:
    """Weights, cache and activations of twice the size, beside float32 probabilities."""
    found, counted = counts(STACKS["llada2-mini"], RAGGED, None, torch.float32).both("bytes")

    assert found == pytest.approx(counted, rel=EXACT)


def shard(stack: ModelSpec, ranks: int) -> ModelSpec:
    """What one of *ranks* GPUs holds: its heads, its part of every inner width, its vocabulary."""
    groups = []
    for group in stack.layers:
        spec, experts = group.attention, group.experts
        attention = dataclasses.replace(
            spec, query_heads=spec.query_heads // ranks, kv_heads=max(1, spec.kv_heads // ranks)
        )
        if experts:
            experts = dataclasses.replace(experts, ffn=experts.ffn // ranks)
        ffn = group.ffn and group.ffn // ranks
        groups.append(LayerGroup(group.count, attention, ffn, experts))
    return dataclasses.replace(stack, layers=tuple(groups), vocab=stack.vocab // ranks)


@pytest.mark.parametrize(
    ("name", "ranks"), [("qwen3-8b", 4), ("llada2-mini", 4), ("llada2-mini", 8)]
)
def test_a_gpu_does_its_part(name: str, ranks: int) -> None:
    """Under tensor parallelism each GPU does what the kernels on its shard do."""
    model, adapter = STACKS[name], adapter_of(STACKS[name])
    run = KernelByKernel(RAGGED, adapter=adapter)
    run.stack(shard(model, ranks))
    spread = dataclasses.replace(placement(run.experts_hit), tensor_parallel=ranks)
    ops = pass_ops(model, step_load(RAGGED), spread, adapter)

    for what in ("flop", "bytes"):
        found, counted = Counts(run, ops).both(what)
        # The GPUs exchange what a shard alone does not, and each sees the whole vocabulary.
        assert found.pop("all-reduce") == found.pop("logits gather") == 0
        elsewhere = {"confidence", "adapter"} if what == "bytes" else set()
        for name_of in elsewhere & set(counted):
            del found[name_of], counted[name_of]
        assert found == pytest.approx(counted, rel=EXACT)


def prefill_flop(group: LayerGroup, query: int, context: int) -> tuple[float, int]:
    """A layer's causal attention: the simulator's flop, and the counter's.

    The counter would see the whole rectangle, so each query runs alone over the keys it may see.
    """
    spec, one_layer = group.attention, dataclasses.replace(group, count=1)
    model = dataclasses.replace(STACKS["qwen3-8b"], layers=(one_layer,))
    rows = Rows(query=(query,), context=(context,))
    ops = pass_ops(model, step_load(rows, prefill=True), Placement())
    counted = 0
    for index in range(query):
        one = KernelByKernel(Rows(query=(1,), context=(context + index,)))
        one.attend(spec)
        counted += one.ledger.flop["attention"]
    return summed(ops, "flop")["attention"], counted


@pytest.mark.parametrize(("query", "context"), [(1, 0), (9, 0), (9, 5), (4, 30)])
def test_prefill_counts_the_visible_keys(query: int, context: int) -> None:
    """A prompt's queries, a later chunk's too, meet the keys up to themselves and no others."""
    found, counted = prefill_flop(STACKS["qwen3-8b"].layers[0], query, context)

    assert found == pytest.approx(counted, rel=EXACT)


def layer_shape(group: LayerGroup) -> LayerShape:
    """A layer group as the whole pass takes it."""
    spec, experts = group.attention, group.experts
    routed = None
    if experts:
        routed = ExpertShape(experts.count, experts.ffn, router_of(experts), experts.shared)
    return LayerShape(
        count=group.count,
        query_heads=spec.query_heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        ffn=group.ffn,
        experts=routed,
        window_tokens=spec.window_tokens,
        qk_norm=spec.qk_norm,
        shared_key_value=spec.shared_key_value,
    )


@pytest.mark.parametrize("name", MODELS.names())
def test_a_whole_pass_does_what_its_operations_do(name: str) -> None:
    """A decoder of the model's shape, run from tokens to confidences, leaves no flop uncounted."""
    model = STACKS[name]
    adapter = adapter_of(model)
    adapted = adapter is not None and len(adapter.targets) == len(get_args(Projection))
    layers = tuple(layer_shape(group) for group in model.layers)
    rank = adapter.rank if adapter and adapted else None
    decoder = RandomDecoder(
        PassShape(model.hidden, model.vocab, layers, adapter_rank=rank), dtype=torch.float32
    )
    # No further back than any window reaches, which the counter would not see.
    visibility = whole(torch.tensor([0, 3]), torch.tensor([3, 3]))
    cache = decoder.new_cache(2, 8)
    plans = decoder.plans(visibility, 3, cache)
    tokens, asked, gate = torch.arange(6).view(2, 3), torch.tensor([1, 2, 4, 5]), torch.ones(2, 3)
    done = counted_flop(
        lambda: decoder.forward(
            tokens, visibility, cache=cache, plans=plans, logit_rows=asked, gate=gate
        )
    )

    rows = Rows(query=(3, 3), context=(0, 3), logits=4, adapter=6)
    ops = pass_ops(model, step_load(rows), Placement(), adapter if adapted else None)
    assert sum(summed(ops, "flop").values()) == pytest.approx(done, rel=EXACT)


@pytest.mark.parametrize(("query", "context"), [(9, 0), (4, 30)])
def test_prefill_counts_the_keys_in_the_window(query: int, context: int) -> None:
    """Behind a window of 6 tokens no query meets more than 6 keys."""
    windowed = STACKS["diffusiongemma-26b-a4b"].layers[0]
    found, counted = prefill_flop(windowed, query, context)

    assert found == pytest.approx(counted, rel=EXACT)


def test_adapter_bytes_are_those_of_the_tensors() -> None:
    """Each of the fused adapters' up products reads its own narrow columns."""
    found, counted = shipped("qwen3-8b", "ragged").both("bytes")

    assert found["adapter"] == pytest.approx(counted["adapter"], rel=EXACT)


def test_adapters_on_a_part_of_a_fused_linear() -> None:
    """An adapter on queries and values alone adds to their columns and not to the keys'."""
    adapter = Adapter(rank=3, targets=("q", "v"), source="by hand")
    found, counted = counts(STACKS["llama-3-8b"], RAGGED, adapter).both("flop")

    assert found["adapter"] == pytest.approx(counted["adapter"], rel=EXACT)
