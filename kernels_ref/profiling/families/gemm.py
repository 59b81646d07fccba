"""Dense products of a layer, y[m, n] = x[m, k] W[n, k]^T, weights cold."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from kernels_ref.kernels.linear import Quantised, linear, quantise
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.point import ELEMENT_BYTES, DataType, Point
from kernels_ref.profiling.pool import TYPES, Pool
from kernels_ref.profiling.served import Served

KERNELS = ("gemm",)


def points(served: Served) -> Iterator[Point]:
    """Every count of tokens for every shape and data type."""
    for (n, k), shape_level in served.linears.items():
        for m, level in served.tokens():
            for precision in served.precisions:
                yield product("gemm", precision, (m, n, k), shape_level + level)


def product(kernel: str, precision: DataType, sizes: tuple[int, int, int], level: int) -> Point:
    """The point of one product of m, n and k."""
    m, n, k = sizes
    return Point(
        kernel=kernel,
        precision=precision,
        sizes={"m": m, "n": n, "k": k},
        level=level,
        flop=2.0 * m * n * k,
        bytes=n * k * ELEMENT_BYTES[precision],
    )


def calls(point: Point, pool: Pool) -> Sequence[Call]:
    """One call per copy of the weights; the activation is hot, as the kernel before left it."""
    m, n, k = (int(point.sizes[name]) for name in ("m", "n", "k"))
    dtype = TYPES[point.precision]
    weights: Sequence[torch.Tensor | Quantised] = pool.copies((n, k), dtype)
    if point.precision == "fp8":
        weights = [quantise(weight, "row") for weight in pool.copies((n, k), dtype)]
    x = pool.one((m, k), dtype)
    return [partial(linear, x, weight) for weight in weights]
