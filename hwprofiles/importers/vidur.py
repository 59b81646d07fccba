"""The kernel times that Vidur publishes as points that a profile is fitted to.

A folder of a GPU has a folder per model with `mlp.csv` and `attention.csv`; times are columns
`time_stats.OPERATION.median`, in milliseconds. There are no LM heads, experts or all-reduces.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from hwprofiles.fitting.device import Device
from hwprofiles.fitting.points import SIZES
from hwprofiles.importers import vidur_attention, vidur_layers
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.imported import Imported
from hwprofiles.importers.known_gpus import Board
from hwprofiles.importers.table import TableError, numbers, read_csv

Tables = list[tuple[Path, pd.DataFrame]]


def read(folder: Path, board: Board, *, name: str, points: str = "") -> Imported:
    """The points in *folder* and below, all of one GPU, and its device; raises TableError.

    The profile will be called *name* and say that its points lie in the file *points*.
    """
    cold = Cold(board.chip.last_level_cache_bytes)
    layers = _tables(folder, "mlp", vidur_layers.SIZES)
    attention = _tables(
        folder, "attention", vidur_attention.SIZES, labels=[vidur_attention.IS_PREFILL]
    )
    products = _medians(layers, "gemm", lambda path, rows: vidur_layers.products(path, rows, cold))
    found = {
        "gemm": products,
        "lm_head": products,
        "elementwise": _medians(
            layers, "elementwise", lambda path, rows: vidur_layers.row_kernels(path, rows, cold)
        ),
        "attention_prefill": _medians(attention, "attention_prefill", vidur_attention.prompts),
        "attention_extend": _medians(
            attention,
            "attention_extend",
            lambda path, rows: vidur_attention.queries(path, rows, cold),
        ),
    }
    _require(folder, found, cold)
    device = _device(board, cold, name=name, points=points, layers=layers)
    return Imported(_joined(found), device, f"{board.source}; {board.chip.source}")


def _tables(folder: Path, name: str, sizes: list[str], labels: Sequence[str] = ()) -> Tables:
    """Every table of that name, its sizes checked; raises TableError where there is none."""
    paths = sorted(folder.rglob(f"{name}.csv"))
    if not paths:
        raise TableError(folder, f"has no {name}.csv below it")
    return [(path, numbers(path, read_csv(path, [*sizes, *labels]), sizes)) for path in paths]


def _medians(
    tables: Tables, kernel: str, choose: Callable[[Path, pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """One row per size, over models."""
    rows = pd.concat([choose(path, table) for path, table in tables])
    return rows.groupby(list(SIZES[kernel]), sort=True)["seconds"].median().reset_index()


def _require(folder: Path, found: dict[str, pd.DataFrame], cold: Cold) -> None:
    """Raise TableError where a kernel that every profile has, or its cold streams, are missing."""
    missing = [kernel for kernel, rows in found.items() if rows.empty]
    streams = found["elementwise"]
    is_cold = (streams["row_bytes"] == 0) & (streams["bytes_moved"] >= cold.whole_bytes)
    if not missing and not is_cold.any():
        missing = ["elementwise (add)"]
    if missing:
        what = f"has no times of {', '.join(missing)} beyond what fits into the last-level cache"
        raise TableError(folder, what)


def _joined(found: dict[str, pd.DataFrame]) -> pd.DataFrame:
    named = [
        rows.assign(kernel=kernel, precision="bf16", framework="vidur", version="")
        for kernel, rows in found.items()
    ]
    return pd.concat(named, ignore_index=True)


def _device(board: Board, cold: Cold, *, name: str, points: str, layers: Tables) -> Device:
    models = ", ".join(sorted({path.parent.name for path, _ in layers}))
    return Device(
        name=name,
        description=board.description,
        memory_bytes=board.memory_bytes,
        last_level_cache_bytes=board.chip.last_level_cache_bytes,
        multiprocessors=board.chip.multiprocessors,
        source=f"Vidur's profiles (Microsoft), fp16: {models}",
        peaks=board.peaks,
        few_full_tiles=True,
        points=points or None,
        notes={
            "gemm": vidur_layers.GEMM_NOTE,
            "lm_head": f"{vidur_layers.LM_HEAD_NOTE}; {vidur_layers.GEMM_NOTE}",
            "elementwise": f"{vidur_layers.ELEMENTWISE_NOTE}; streams {cold.streams_told}",
            "attention_prefill": vidur_attention.PREFILL_NOTE,
            "attention_extend": vidur_attention.EXTEND_NOTE.format(caches=cold.caches_told),
        },
    )
