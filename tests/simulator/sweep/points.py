"""Sweeps of a small scenario, written to files and read."""

from pathlib import Path
from typing import Any

import yaml

from simulator.sweep.expansion import Point
from simulator.sweep.reading import Sweep, read_sweep

BASE: dict[str, Any] = {
    "model": "qwen3-8b",
    "hardware": "h200-sxm",
    "decode": {"policy": "uno-linear", "block": 4, "tokens_per_step": 3.0},
    "workload": {"kind": "closed", "concurrency": 2, "prompt_tokens": 64, "output_tokens": 16},
}


def written(path: Path, **fields: Any) -> Path:
    """A sweep's file with *fields*, of the small scenario unless they say another."""
    document = {"scenario": BASE} | fields
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def sweep_of(folder: Path, **fields: Any) -> Sweep:
    """The sweep that the fields are."""
    return read_sweep(written(folder / "sweep.yaml", **fields), {})


def points_of(sweep: Sweep) -> list[Point]:
    """Its points, all at once."""
    return list(next(sweep.source.batches()))
