"""A small CPU by hand: no experts, no GPUs beside it, fp32, a table by rows, an environment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from hwprofiles import HardwareProfile
from hwprofiles.fitting.points import SIZES
from simulator.library import HARDWARE

SOURCE = {"kind": "fitted", "text": "timed by hand"}
RESIDUAL = {"median": 0.02, "p90": 0.1, "points": 7}
ATTENTION: dict[str, Any] = {
    "form": "attention",
    "tile_rows": 32,
    "row_granule": 1,
    "multiprocessors": 2,
    "key_splits": 1,
    "launch_s": 1e-4,
    "split_s": 0.0,
    "split_kv_tokens": 1.0,
    "wave_s": 0.0,
    "wave_power": 1.0,
    "memory_bytes_per_s": 8e9,
    "flop_per_s": 5e10,
    "roof_power": 1.0,
    "residual": RESIDUAL,
    "domain": {
        "rows_per_kv_head": (1.0, 1024.0),
        "kv_tokens": (16.0, 16640.0),
        "kv_bytes": (1e3, 1e9),
        "sequences": (1.0, 8.0),
        "head_dim": (64.0, 64.0),
    },
    "source": SOURCE,
}
# A weight of 4 bytes at 8 GB/s takes 0.5 ns; 4 rows at 16 GFLOP/s do too.
DENSE: dict[str, Any] = {
    "form": "gemm-by-rows",
    "launch_s": 1e-4,
    "rows": [1.0, 4.0, 64.0],
    "weight_s": [5e-10, 5e-10, 8e-9],
    "memory_bytes_per_s": 8e9,
    "flop_per_s": 1.6e10,
    "weight_element_bytes": 4.0,
    "residual": RESIDUAL,
    "domain": {"m": (1.0, 64.0), "n": (256.0, 4096.0), "k": (256.0, 4096.0)},
    "source": SOURCE,
}
SMALL_MACHINE: dict[str, Any] = {
    "name": "small-machine",
    "description": "two cores [by hand]",
    "memory_bytes": 8e9,
    "last_level_cache_bytes": 3.2e7,
    "multiprocessors": 2,
    "peaks": {
        "bf16_flop_per_s": 8e10,
        "fp32_flop_per_s": 4e10,
        "memory_bytes_per_s": 1e10,
        "source": {"kind": "measured", "text": "the fastest points"},
    },
    "kernels": {
        "gemm": {"fp32": DENSE},
        "lm_head": {"fp32": DENSE},
        "attention_extend": {"fp32": ATTENTION | {"causal": False}},
        "attention_prefill": {"fp32": ATTENTION | {"causal": True, "row_granule": 32}},
        "moe": {},
        "elementwise": {
            "form": "streaming",
            "launch_s": 2e-6,
            "memory_bytes_per_s": 8e9,
            "row_bytes_per_s": 2e9,
            "residual": RESIDUAL,
            "row_residual": {"median": 0.05, "p90": 0.2, "points": 3},
            "domain": {"bytes_moved": (64.0, 1e8), "row_bytes": (0.0, 8192.0)},
            "source": SOURCE,
        },
    },
    "environment": {"device": "a processor [boxed]", "threads": "2"},
}


def sizes_of(kernel: str) -> Sequence[tuple[float, ...]]:
    """What is measured of *kernel*, in the order of its sizes."""
    if kernel in {"gemm", "lm_head"}:
        shapes = ((256, 256), (1024, 1024), (4096, 1024)) if kernel == "gemm" else ((4096, 256),)
        return [(m, n, k) for n, k in shapes for m in range(1, 65)]
    if kernel == "attention_extend":
        prefixes = (16, 64, 256, 1024, 4096, 16384)
        return [(2, q, q + p, 8, 2, 64) for q in (1, 16, 32, 64, 128, 256) for p in prefixes]
    if kernel == "attention_prefill":
        return [(1, q, q, 8, 2, 64) for q in np.unique(np.geomspace(16, 4096, 25).round())]
    streams = [(size, 0) for size in np.geomspace(64, 1e8, 40).round()]
    return streams + [(8192 * rows, 8192) for rows in range(1, 40)]


def points_of(profile: HardwareProfile, noise: float = 0.0) -> pd.DataFrame:
    """Points on the curves of *profile*, off by up to *noise* of themselves."""
    return pd.concat([_kernel(profile, kernel, noise) for kernel in MEASURED], ignore_index=True)


MEASURED = ("gemm", "lm_head", "attention_extend", "attention_prefill", "elementwise")


def _kernel(profile: HardwareProfile, kernel: str, noise: float) -> pd.DataFrame:
    table = pd.DataFrame(sizes_of(kernel), columns=list(SIZES[kernel]), dtype=np.float64)
    curves = getattr(profile.kernels, kernel)
    curve = curves["fp32"] if isinstance(curves, dict) else curves
    exact = [_seconds(curve, row) for row in table.to_dict("records")]
    off = np.random.default_rng(len(table)).uniform(1 - noise, 1 + noise, len(table))
    return table.assign(kernel=kernel, precision="fp32", seconds=np.array(exact) * off)


def _seconds(curve: Any, row: dict[Any, float]) -> float:
    if "sequences" not in row:
        return float(curve.time(**row).seconds)
    batch = int(row["sequences"])
    times = curve.time(
        np.full(batch, row["query_tokens"]),
        np.full(batch, row["kv_tokens"]),
        query_heads=row["query_heads"],
        kv_heads=row["kv_heads"],
        head_dim=int(row["head_dim"]),
        kv_element_bytes=4.0,
    )
    return float(times.seconds)


def machine(folder: Path, **changes: Any) -> Path:
    """The profile as a file in *folder*, with fields changed."""
    path = folder / "machine.yaml"
    # YAML has lists, not tuples.
    document = _listed(SMALL_MACHINE | changes)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        # A copy of everything: repeated objects would be written as aliases.
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def machine_with_points(folder: Path, noise: float = 0.1) -> Path:
    """The profile and points beside it."""
    path = machine(folder, points="machine.parquet")
    points_of(HARDWARE.get(str(path)), noise).to_parquet(folder / "machine.parquet")
    return path
