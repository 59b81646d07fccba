"""Fits a hardware profile to kernels that were timed within passes."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

from hwprofiles import HardwareProfile
from hwprofiles.fitting.assemble import fit_profile
from hwprofiles.fitting.device import CPU_ATTENTION, Device
from hwprofiles.fitting.document import document, write
from hwprofiles.fitting.points import fitted_rows
from kernels_ref.closed_loop.cells import Cell, Stand, Sweeps
from kernels_ref.closed_loop.timed_pass import Key
from kernels_ref.profiling import environment
from kernels_ref.profiling.families.elementwise import (
    PROBABILITY_BYTES,
    STREAM,
    WIDTHS_MOVED,
    WIDTHS_OF_ROW,
)
from kernels_ref.profiling.point import ELEMENT_BYTES, DataType

PRECISIONS: Final[Mapping[torch.dtype, DataType]] = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
}
TILES: Final = {"tile_rows": (32,)}
"""Of few queries, where the library's larger tiles fitted no better."""
ROW_KERNELS: Final = ("norm", "rotary", "swiglu")


def profile_of(sweeps: Iterable[Sweeps], device: torch.device, path: Path) -> HardwareProfile:
    """The profile of the kernels in *sweeps*, written to *path*, the points beside it.

    Raises ValueError where no curves can be fitted to them.
    """
    points = pd.DataFrame([row for each in sweeps for row in _rows(each)])
    told = environment.describe(device, torch.get_num_threads())
    today = dt.datetime.now(tz=dt.UTC).date()
    where = f"blockcast closed-loop on {told['device']}, torch {told['torch']}, {today}"
    tiles: Mapping[str, Any] = {} if device.type == "cuda" else {**CPU_ATTENTION, **TILES}
    table = path.with_suffix(".parquet")
    profile = fit_profile(
        fitted_rows(points),
        Device(
            name=path.stem,
            description=f"{told['device']}, kernels of one model timed within its passes",
            memory_bytes=environment.memory_bytes(device),
            last_level_cache_bytes=environment.last_level_cache_bytes(device),
            multiprocessors=environment.multiprocessors(device, torch.get_num_threads()),
            source=f"{where}; the fastest of some visits",
            tabulates=True,
            one_model=True,
            environment=dict(told),
            points=table.name,
            **tiles,
        ),
    )
    points.to_parquet(table)
    write(path, document(profile, "blockcast closed-loop", "as the machine tells"))
    return profile


def _rows(sweeps: Sweeps) -> Iterator[dict[str, Any]]:
    stand = sweeps.stand
    precision = PRECISIONS[stand.decoder.weights.embedding.dtype]
    for cell, stopwatch in sweeps.fastest.items():
        for key, seconds in stopwatch.mean_s().items():
            for row in _points(stand, cell, key, seconds):
                yield {"precision": precision, "status": "measured", "operation": "", **row}


def _points(stand: Stand, cell: Cell, key: Key, seconds: float) -> Iterator[dict[str, Any]]:
    """What *seconds* of a kernel say, as points of cost curves."""
    name, sizes = key
    element = ELEMENT_BYTES[PRECISIONS[stand.decoder.weights.embedding.dtype]]
    if name in {"gemm", "lm_head"}:
        yield {"kernel": name, **_product(*sizes), "seconds": seconds}
    elif name == "adapters":
        yield from _adapters(*sizes, seconds=seconds)
    elif name == "attention":
        yield {**_attention(stand, cell), "seconds": seconds}
    elif name in ROW_KERNELS:
        rows, width = sizes
        row = element * width
        yield _moving(name, WIDTHS_MOVED[name] * row * rows, WIDTHS_OF_ROW[name] * row, seconds)
    elif name == "confidence":
        rows, entries = sizes
        yield _moving(name, (element + PROBABILITY_BYTES) * rows * entries, 0.0, seconds)
    elif name == "embedding":
        rows, width = sizes
        yield _moving(STREAM, 2 * element * rows * width, 0.0, seconds)


def _product(m: int, n: int, k: int) -> dict[str, float]:
    return {"m": float(m), "n": float(n), "k": float(k)}


def _adapters(
    tokens: int, inputs: int, narrow: int, *outs: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """The two products of an adapter by their share of the arithmetic, what is between included."""
    rank = narrow // len(outs)
    products = (narrow, inputs), (sum(outs), rank)
    whole = sum(n * k for n, k in products)
    for n, k in products:
        share = seconds * n * k / whole
        yield {"kernel": "gemm", **_product(tokens, n, k), "seconds": share}


def _attention(stand: Stand, cell: Cell) -> dict[str, Any]:
    layer = stand.shape.layers[0]
    prefixes = stand.prefixes(cell)
    return {
        "kernel": "attention_prefill" if cell.is_prompt else "attention_extend",
        "operation": "causal" if cell.is_prompt else "whole",
        "sequences": float(cell.rows),
        "query_tokens": float(cell.queries),
        "kv_tokens": cell.queries + sum(prefixes) / len(prefixes),
        "query_heads": float(layer.query_heads),
        "kv_heads": float(layer.kv_heads),
        "head_dim": float(layer.head_dim),
    }


def _moving(operation: str, moved_bytes: float, row_bytes: float, seconds: float) -> dict[str, Any]:
    return {
        "kernel": "elementwise",
        "operation": operation,
        "bytes_moved": moved_bytes,
        "row_bytes": row_bytes,
        "seconds": seconds,
    }
