"""Capacity: what fits in a GPU's memory beside the weights, and how many sequences that is."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from hwprofiles import HardwareProfile
from simulator.engine_profile import EngineProfile
from simulator.model import Adapter, Drafter, ModelSpec, Stack
from simulator.ops import Placement, Precision

# Logits are kept in bf16 and, for the soft-max, in float32.
LOGIT_WORKSPACE_BYTES = 2.0 + 4.0
GIGABYTE = 1e9


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on each GPU: what the engine may use, what is taken, what is left for KV."""

    usable_bytes: float
    weight_bytes: float
    workspace_bytes: float

    @property
    def kv_capacity_bytes(self) -> float:
        """What is left for the cache; negative when even the weights do not fit."""
        return self.usable_bytes - self.weight_bytes - self.workspace_bytes


def weight_bytes(
    model: ModelSpec, placement: Placement, adapter: Adapter | None, drafter: Drafter | None
) -> float:
    """Bytes of weights on each GPU: body and vocabulary matrices, adapter and drafter."""
    tp, element = placement.tensor_parallel, placement.precision.weight_bytes
    computed = placement.precision.activation_bytes
    head = model.lm_head_parameters * computed
    embedding = 0.0 if model.tied_embedding else head
    total = _body(model, placement) + embedding / tp
    total += head / (tp if placement.sharded_lm_head else 1)
    if adapter is not None:
        total += model.adapter_parameters(adapter) * computed / tp
    if drafter is not None:
        total += drafter.parameters * element / tp
    return total


def _body(stack: Stack, placement: Placement) -> float:
    """Layer weights per GPU; key and value projections of too few heads are replicated."""
    tp, element = placement.tensor_parallel, placement.precision.weight_bytes
    replicated = sum(
        group.count
        * stack.hidden
        * (group.attention.projected_width - group.attention.query_width)
        * (1 / min(tp, group.attention.kv_heads) - 1 / tp)
        for group in stack.layers
    )
    return (stack.body_parameters / tp + replicated) * element


def sequence_bytes(
    tokens: npt.ArrayLike, model: ModelSpec, placement: Placement, drafter: Drafter | None
) -> Any:  # noqa: ANN401 (a number for a number, an array for an array)
    """Cache bytes of a sequence on each GPU, the drafter's included, in the shape of *tokens*."""
    stacks: list[Stack] = [model] if drafter is None else [model, drafter]
    element = placement.precision.kv_bytes
    return sum(
        stack.kv_bytes(tokens, element) * _kv_share(stack, placement.tensor_parallel)
        for stack in stacks
    )


def _kv_share(stack: Stack, tensor_parallel: int) -> float:
    """Share of the cache that each GPU holds: KV heads are split, never below one."""
    return 1 / min(tensor_parallel, *(group.attention.kv_heads for group in stack.layers))


def memory_plan(  # noqa: PLR0913 (what takes memory)
    hardware: HardwareProfile,
    engine: EngineProfile,
    weights: float,
    *,
    model: ModelSpec,
    precision: Precision,
    logit_rows: int,
) -> MemoryPlan:
    """The engine's share of memory, less weights and the largest activations and logits."""
    widest = max((group.ffn or 0) for group in model.layers)
    token_bytes = precision.activation_bytes * (4 * model.hidden + 2 * widest)
    activations = engine.prefill_batch_tokens * token_bytes
    logits = logit_rows * model.vocab * LOGIT_WORKSPACE_BYTES
    return MemoryPlan(
        usable_bytes=engine.memory_utilisation * hardware.memory_bytes,
        weight_bytes=weights,
        workspace_bytes=activations + logits,
    )
