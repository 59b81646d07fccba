"""Attention of one to many queries over a cached prefix, and of whole prompts; the cache is cold.

The queries' own keys and values are put into the cache first, as everywhere a layer attends.

Every backend that can run a point is timed and kept under its name: a good engine takes the
fastest, and so does the fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch

from kernels_ref.kernels.attention import Backend, attention, prepare
from kernels_ref.kernels.kv_cache import scatter_kv
from kernels_ref.kernels.visibility import causal, whole
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.point import ELEMENT_BYTES, DataType, Point
from kernels_ref.profiling.pool import TYPES, Pool
from kernels_ref.profiling.served import Served, leveled

KERNELS = ("attention_extend", "attention_prefill")

# On a GPU few queries over a long prefix are what decoders that emit blocks do most, and nobody
# has measured them, so they come first.
LEAST_KNOWN_QUERIES = 16
LEAST_KNOWN_PREFIX_TOKENS = 1024
QUERIES = ((1, 16, 32, 64, 128), (4, 8, 256), (2, 17, 33, 61))
PREFIXES = ((1024, 8192), (128, 512, 4096), (0, 64, 256, 2048, 16384, 32768))
SEQUENCES = ((1, 8), (4, 32), (2, 16, 64, 128, 256))
PROMPTS = (
    (32, 64, 128, 256, 512, 1024),
    (16, 48, 96, 192, 384, 768, 2048, 4096),
    (8192, 16384),
)
PROMPT_SEQUENCES = ((1, 2, 4), (8, 16), (32,))
MOST_PROMPT_TOKENS = 32768
# The compiler builds one program per shape, so it is asked for few.
FLEX_LEVEL = 3
CPU_BACKEND = "sdpa"
TAKE_MASKS = (CPU_BACKEND, "flex")


@dataclass(frozen=True)
class Lengths:
    """A batch of equal sequences."""

    sequences: int
    query_tokens: int
    kv_tokens: int
    """Those of the queries included."""
    causal: bool = False

    @property
    def is_masked(self) -> bool:
        """Whether a query sees less than all, so that only a masked kernel will do."""
        return self.causal and 1 < self.query_tokens < self.kv_tokens


def points(served: Served) -> Iterator[Point]:
    """Queries x prefix x sequences for every head shape, and prompts."""
    for heads, shape_level in served.heads.items():
        for precision in served.precisions:
            if precision == "fp8":
                continue
            for backend in served.attention_backends:
                later = shape_level + (FLEX_LEVEL if backend == "flex" else 0)
                for lengths, level in _extends(served, backend):
                    if backend in TAKE_MASKS or not lengths.is_masked:
                        made = _point("attention_extend", precision, lengths, heads)
                        yield replace(made, level=later + level, backend=backend)
                for lengths, level in _prompts(served):
                    made = _point("attention_prefill", precision, lengths, heads)
                    yield replace(made, level=later + level, backend=backend)


def _extends(served: Served, backend: str) -> Iterator[tuple[Lengths, int]]:
    for query, query_level in leveled(QUERIES, served.most_tokens):
        for prefix, prefix_level in leveled(PREFIXES, served.most_prefix_tokens):
            for sequences, batch_level in leveled(SEQUENCES, served.most_sequences):
                level = query_level + prefix_level + batch_level
                long = query >= LEAST_KNOWN_QUERIES and prefix >= LEAST_KNOWN_PREFIX_TOKENS
                first = long and backend != CPU_BACKEND
                yield Lengths(sequences, query, prefix + query), level - first
                if query > 1 and level == 0:
                    yield Lengths(sequences, query, prefix + query, causal=True), 1


def _prompts(served: Served) -> Iterator[tuple[Lengths, int]]:
    for tokens, tokens_level in leveled(PROMPTS, served.most_prefix_tokens):
        for sequences, batch_level in leveled(PROMPT_SEQUENCES, served.most_sequences):
            if tokens * sequences <= MOST_PROMPT_TOKENS:
                lengths = Lengths(sequences, tokens, tokens, causal=True)
                yield lengths, tokens_level + batch_level


def _point(
    kernel: str, precision: DataType, lengths: Lengths, heads: tuple[int, int, int]
) -> Point:
    query_heads, kv_heads, head_dim = heads
    sequences, query, keys = lengths.sequences, lengths.query_tokens, lengths.kv_tokens
    seen = keys - (query - 1) / 2 if lengths.causal else keys
    return Point(
        kernel=kernel,
        precision=precision,
        sizes={
            "sequences": sequences,
            "query_tokens": query,
            "kv_tokens": keys,
            "query_heads": query_heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
        },
        level=0,
        flop=4.0 * sequences * query_heads * head_dim * query * seen,
        bytes=2.0 * sequences * keys * kv_heads * head_dim * ELEMENT_BYTES[precision],
        operation="causal" if lengths.causal else "whole",
    )


def calls(point: Point, pool: Pool) -> Sequence[Call]:
    """One call per copy of the cache, by the point's backend."""
    names = ("sequences", "query_tokens", "kv_tokens", "query_heads", "kv_heads", "head_dim")
    sequences, query, keys, query_heads, kv_heads, head_dim = (
        int(point.sizes[name]) for name in names
    )
    dtype, device = TYPES[point.precision], pool.device
    asked = pool.one((sequences, query, query_heads, head_dim), dtype)
    own = pool.one((2, sequences, query, kv_heads, head_dim), dtype)
    prefixes = torch.full((sequences,), keys - query, device=device)
    queries = torch.full((sequences,), query, device=device)
    visibility = (causal if point.operation == "causal" else whole)(prefixes, queries)
    plan = prepare(
        visibility,
        rows=sequences,
        queries=query,
        keys=keys,
        query_heads=query_heads,
        kv_heads=kv_heads,
        backend=cast("Backend", point.backend),
    )

    def call(cache: torch.Tensor) -> torch.Tensor:
        for kept, new in zip(cache, own, strict=True):
            scatter_kv(kept, new, prefixes, queries)
        return attention(asked, cache[0], cache[1], plan)

    caches = pool.copies((2, sequences, keys, kv_heads, head_dim), dtype)
    return [partial(call, cache) for cache in caches]
