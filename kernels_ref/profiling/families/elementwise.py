"""Kernels that move bytes: streams over cold memory, and row kernels on what was just written."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from kernels_ref.kernels.lm_head import confidence
from kernels_ref.kernels.rms_norm import add_rms_norm
from kernels_ref.kernels.rotary import rotary
from kernels_ref.kernels.swiglu import swiglu
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.point import ELEMENT_BYTES, DataType, Point
from kernels_ref.profiling.pool import TYPES, Pool
from kernels_ref.profiling.served import Served, leveled

KERNELS = ("elementwise",)
STREAM = "copy"
LAUNCH_BYTES = 64
# Streaming bandwidth and the launch floor come before everything else.
FIRST = -10
STREAM_BYTES = tuple(4**power for power in range(6, 16))
ROWS = ((1, 16, 256), (4, 64, 1024), (2, 8, 32, 128, 512, 2048))
HEAD_DIM = 64
# Of a row of width w: norm reads and writes x and the residual and reads the sum again, rotary
# reads and writes, SwiGLU reads two widths and writes one; as `simulator.work` counts them.
WIDTHS_MOVED = {"norm": 4.0, "rotary": 2.0, "swiglu": 3.0}
WIDTHS_OF_ROW = {"norm": 5.0, "rotary": 2.0, "swiglu": 3.0}
PROBABILITY_BYTES = 8.0
"""Float32 probabilities written and read: what confidence is counted as, beside the logits."""


def points(served: Served) -> Iterator[Point]:
    """Copies from a cache line to a gigabyte, then each row kernel over each width."""
    for precision in served.precisions:
        if precision == "fp8":
            continue
        for moved in (LAUNCH_BYTES, *STREAM_BYTES):
            elements = int(moved / 2 / ELEMENT_BYTES[precision])
            yield _point(STREAM, precision, (1, elements), moved, FIRST)
        for width, shape_level in served.widths.items():
            for rows, level in leveled(ROWS, served.most_tokens):
                for operation, widths in WIDTHS_MOVED.items():
                    moved_bytes = widths * ELEMENT_BYTES[precision] * rows * width
                    at = shape_level + level
                    yield _point(operation, precision, (rows, width), moved_bytes, at)
        for (entries, _), shape_level in served.vocabularies.items():
            for rows, level in leveled(ROWS, 256):
                moved_bytes = (ELEMENT_BYTES[precision] + PROBABILITY_BYTES) * rows * entries
                at = shape_level + level
                yield _point("confidence", precision, (rows, entries), moved_bytes, at)


def _point(
    operation: str, precision: DataType, shape: tuple[int, int], moved_bytes: float, level: int
) -> Point:
    row_widths = WIDTHS_OF_ROW.get(operation, 0.0)
    return Point(
        kernel="elementwise",
        precision=precision,
        sizes={
            "bytes_moved": moved_bytes,
            "row_bytes": row_widths * ELEMENT_BYTES[precision] * shape[1],
        },
        level=level,
        flop=0.0,
        bytes=moved_bytes,
        operation=operation,
        shape=shape,
    )


def calls(point: Point, pool: Pool) -> Sequence[Call]:
    """A stream goes round copies; a row kernel finds its rows where the kernel before left them."""
    rows, width = point.shape
    dtype = TYPES[point.precision]
    if point.operation == STREAM:
        pairs = pool.copies((2, width), dtype)
        return [partial(pair[1].copy_, pair[0]) for pair in pairs]
    return [_row_kernel(point.operation, rows, width, pool, dtype)]


def _row_kernel(operation: str, rows: int, width: int, pool: Pool, dtype: torch.dtype) -> Call:
    if operation == "norm":
        x, residual, weight = (pool.one(s, dtype) for s in ((rows, width), (rows, width), (width,)))
        return lambda: add_rms_norm(x, residual, weight)
    if operation == "swiglu":
        gate_up = pool.one((rows, 2 * width), dtype)
        return lambda: swiglu(gate_up)
    if operation == "confidence":
        logits = pool.one((rows, width), dtype)
        return lambda: confidence(logits)
    head_dim = HEAD_DIM if width % HEAD_DIM == 0 else width
    heads = pool.one((1, rows, width // head_dim, head_dim), dtype)
    positions = torch.arange(rows, device=pool.device)[None]
    return lambda: rotary(heads, positions)
