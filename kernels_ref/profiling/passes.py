"""Times whole forward passes with random weights: what a profile's curves should add up to."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from kernels_ref.kernels.moe import Router
from kernels_ref.kernels.visibility import whole
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import RandomDecoder
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.measure import VISITS, Request
from kernels_ref.profiling.point import DataType, Point
from kernels_ref.profiling.pool import TYPES
from kernels_ref.profiling.samples import Samples
from kernels_ref.profiling.session import Progress, run

KERNEL = "pass"
QUERIES = ((1, 16, 32, 128), (4, 8, 64, 256))
SEQUENCES = ((1, 16), (4, 64))
PREFIXES = ((1024, 8192), (128, 4096))
"""By level: the corners first."""


def pass_shape(model: Mapping[str, Any]) -> PassShape:
    """The shape of a model given as plain values, named as in a model file."""
    return PassShape(
        hidden=model["hidden"],
        vocab=model["vocab"],
        layers=tuple(_layer(group) for group in model["layers"]),
    )


def _layer(group: Mapping[str, Any]) -> LayerShape:
    attention, experts = group["attention"], group["experts"]
    return LayerShape(
        count=group["count"],
        query_heads=attention["query_heads"],
        kv_heads=attention["kv_heads"],
        head_dim=attention["head_dim"],
        ffn=group["ffn"],
        experts=_experts(experts) if experts else None,
        window_tokens=attention["window_tokens"],
        qk_norm=attention["qk_norm"],
        shared_key_value=attention["shared_key_value"],
    )


def _experts(experts: Mapping[str, Any]) -> ExpertShape:
    groups = {"groups": experts["groups"], "groups_used": experts["groups_used"]}
    router = Router(top_k=experts["top_k"], **groups)
    return ExpertShape(experts["count"], experts["ffn"], router, experts["shared"])


def pass_points(model: str, precision: DataType, most_tokens: float) -> list[Point]:
    """Batches of equal sequences, the corners first, of *most_tokens* cached in all at most."""
    points = [
        Point(
            kernel=KERNEL,
            precision=precision,
            sizes={"sequences": rows, "query_tokens": queries, "prefix_tokens": prefix},
            level=level,
            flop=0.0,
            bytes=0.0,
            operation=model,
        )
        for rows, queries, prefix, level in _sizes()
        if rows * (prefix + queries) <= most_tokens
    ]
    return sorted(points, key=lambda point: point.level)


def _sizes() -> Iterator[tuple[int, int, int, int]]:
    for rows_level, all_rows in enumerate(SEQUENCES):
        for query_level, all_queries in enumerate(QUERIES):
            for prefix_level, prefixes in enumerate(PREFIXES):
                level = rows_level + query_level + prefix_level
                for rows in all_rows:
                    for queries in all_queries:
                        for prefix in prefixes:
                            yield rows, queries, prefix, level


def pass_calls(decoder: RandomDecoder, device: torch.device, point: Point) -> list[Call]:
    """One pass of the point's batch; every query sees its row's prefix and its whole block.

    All query tokens get logits, as in block diffusion and verification. The weights of a model are
    more than a cache holds, so one call stands for cold ones where the model does.
    """
    rows, queries, prefix = (
        int(point.sizes[name]) for name in ("sequences", "query_tokens", "prefix_tokens")
    )
    visibility = whole(
        torch.full((rows,), prefix, device=device), torch.full((rows,), queries, device=device)
    )
    tokens = torch.randint(decoder.shape.vocab, (rows, queries), device=device)
    cache = decoder.new_cache(rows, prefix + queries)
    plans = decoder.plans(visibility, queries, cache)
    return [partial(decoder.forward, tokens, visibility, cache=cache, plans=plans)]


def measure_passes(
    request: Request, model: str, document: Mapping[str, Any], progress: Progress
) -> Samples:
    """Samples of whole passes of *model*, given as plain values, beside the request's profile.

    In the first wide one of the request's data types (bf16 if there is none), until its budget is
    spent; goes on with the samples that are there. Raises SamplesError where those were taken
    elsewhere.
    """
    wide: list[DataType] = [each for each in request.served.precisions if each != "fp8"]
    precision = wide[0] if wide else "bf16"
    samples = Samples.open(request.passes_path, request.environment())
    points = pass_points(
        model, precision, request.memory_bytes / _cached_bytes(document, precision)
    )
    points = [point for point in points if _context_tokens(point) <= document["max_context_tokens"]]
    torch.set_num_threads(request.threads)
    with torch.inference_mode():
        decoder = RandomDecoder(
            pass_shape(document), dtype=TYPES[precision], device=request.device.type
        )
        run(
            points,
            samples,
            pool=request.pool(),
            clock=request.clock(),
            budget_s=request.budget_s,
            visits=VISITS[request.device.type],
            progress=progress,
            calls={KERNEL: lambda point, _pool: pass_calls(decoder, request.device, point)},
        )
    return samples


def _context_tokens(point: Point) -> float:
    return point.sizes["prefix_tokens"] + point.sizes["query_tokens"]


def _cached_bytes(model: Mapping[str, Any], precision: DataType) -> float:
    """Of one token in the cache of all layers."""
    heads = [(group["count"], group["attention"]) for group in model["layers"]]
    numbers = sum(2 * count * each["kv_heads"] * each["head_dim"] for count, each in heads)
    return float(numbers * TYPES[precision].itemsize)
