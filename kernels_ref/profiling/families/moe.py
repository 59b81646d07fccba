"""Routed experts: top-k choice, sorting, two grouped products, combination; weights cold."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from hwprofiles.kernel_shapes import ExpertsShape
from kernels_ref.kernels.moe import Router, grouped_experts, route
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.point import ELEMENT_BYTES, DataType, Point
from kernels_ref.profiling.pool import TYPES, Pool
from kernels_ref.profiling.served import Served, leveled

KERNELS = ("moe",)
TOKENS = (
    (1, 8, 32, 128, 512),
    (2, 4, 16, 64, 256, 1024, 2048),
    (3, 6, 12, 24, 33, 48, 96, 192, 384, 4096),
)
NARROW = "narrow"
"""All tokens go to the same experts: tells what a row costs from what an expert costs."""


def points(served: Served) -> Iterator[Point]:
    """Tokens for every expert shape, spread at random and all to the same few."""
    for experts, shape_level in served.experts.items():
        for tokens, level in leveled(TOKENS, served.most_tokens):
            for precision in served.precisions:
                if precision != "fp8":
                    for operation, later in (("spread", 0), (NARROW, 1)):
                        at = shape_level + level + later
                        yield _point(experts, tokens, precision, operation, at)


def _point(
    experts: ExpertsShape, tokens: int, precision: DataType, operation: str, level: int
) -> Point:
    active = _active(experts, tokens, operation)
    elements = 3.0 * experts.hidden * experts.ffn
    return Point(
        kernel="moe",
        precision=precision,
        sizes={
            "tokens": tokens,
            "active_experts": active,
            "hidden": experts.hidden,
            "expert_ffn": experts.ffn,
            "top_k": experts.top_k,
            "experts": experts.count,
        },
        level=level,
        flop=2.0 * tokens * experts.top_k * elements,
        bytes=active * elements * ELEMENT_BYTES[precision],
        operation=operation,
    )


def _active(experts: ExpertsShape, tokens: int, operation: str) -> int:
    chosen = _logits(experts.count, tokens, operation).topk(experts.top_k, dim=-1).indices
    return len(chosen.unique())


def _logits(experts: int, tokens: int, operation: str) -> torch.Tensor:
    """Router logits [tokens, experts], the same whenever they are asked for."""
    generator = torch.Generator().manual_seed(tokens)
    rows = 1 if operation == NARROW else tokens
    return torch.randn(rows, experts, generator=generator).expand(tokens, experts)


def calls(point: Point, pool: Pool) -> Sequence[Call]:
    """One call per copy of all experts' weights."""
    names = ("tokens", "hidden", "expert_ffn", "top_k", "experts")
    tokens, hidden, ffn, top_k, experts = (int(point.sizes[name]) for name in names)
    dtype = TYPES[point.precision]
    x = pool.one((tokens, hidden), dtype)
    logits = _logits(experts, tokens, point.operation).contiguous().to(pool.device, dtype)
    router = Router(top_k=top_k)

    def call(weights: torch.Tensor) -> torch.Tensor:
        gate_up, down = weights[: 2 * ffn * experts * hidden], weights[2 * ffn * experts * hidden :]
        return grouped_experts(
            x,
            *route(logits, router),
            gate_up.view(experts, 2 * ffn, hidden),
            down.view(experts, hidden, ffn),
        )

    copies = pool.copies((3 * ffn * experts * hidden,), dtype)
    return [partial(call, weights) for weights in copies]
