"""The shipped studies, each with a part of its points and fewer requests."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.documents import read_mapping
from simulator.execution.pool import pool_of
from simulator.library import STUDIES
from simulator.measure import Distribution
from simulator.published import Case, PublishedTable, publication, table_cases
from simulator.sweep.folder import journal_of
from simulator.sweep.reading import read_sweep, sweep_of
from simulator.sweep.sweep import run_points
from simulator.sweep.table import Row
from tests.cli.command import call

RATE = "output_tokens_per_s"
SPEED = "output_tokens_per_s_per_request"
USERS = "workload.concurrency"


@dataclass(frozen=True)
class Reduction:
    """How a study is made small: some values of its grid, and settings of its scenario."""

    grid: Mapping[str, list[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)


REDUCED = {
    "uno-concurrency": Reduction({USERS: [1, 8, 64]}),
    "gpu-generations": Reduction({USERS: [1, 128]}, {"workload.output_tokens": 128}),
    "window-gate": Reduction(
        {"decode.window": [1, 3], "decode.theta_spawn": [0.0, 0.6], USERS: [1, 4]},
        {"workload.requests": 8},
    ),
    "buffer-batch": Reduction(
        {"decode.buffer": [1, 3], USERS: [1, 4]},
        {"workload.requests": 8},
    ),
    "trace-load": Reduction(
        {"workload.rate_scale": [0.5, 1.0, 2.0, 4.0]}, {"workload.requests": 100}
    ),
}
