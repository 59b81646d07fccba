"""The LM head: a product as wide as the vocabulary, never quantised."""

from collections.abc import Iterator, Sequence
from functools import partial

from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.families.gemm import product
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.pool import TYPES, Pool
from kernels_ref.profiling.served import Served, leveled

KERNELS = ("lm_head",)
ROWS = (
    (1, 2, 4, 8, 16, 32, 64, 128, 256),
    (3, 6, 12, 24, 33, 48, 61, 96, 192, 512),
    (5, 9, 17, 20, 28, 40, 56, 80, 160, 384, 1024),
)


def points(served: Served) -> Iterator[Point]:
    """Fewer rows than of a layer's products: each takes as long as dozens of those."""
    for (entries, hidden), shape_level in served.vocabularies.items():
        for rows, level in leveled(ROWS, served.most_tokens):
            for precision in served.precisions:
                if precision != "fp8":
                    sizes = (rows, entries, hidden)
                    yield product("lm_head", precision, sizes, shape_level + level)


def calls(point: Point, pool: Pool) -> Sequence[Call]:
    """One call per copy of the matrix."""
    m, n, k = (int(point.sizes[name]) for name in ("m", "n", "k"))
    dtype = TYPES[point.precision]
    hidden = pool.one((m, k), dtype)
    return [partial(lm_head, hidden, weight) for weight in pool.copies((n, k), dtype)]
