"""Raw samples: one row per point, kept in a Parquet file that grows while measuring."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hwprofiles.fitting.points import DONE
from hwprofiles.quantities import FloatArray
from kernels_ref.profiling.point import Point

DONE_WITH = 1_000_000
MOST_KEPT = 64
"""Samples of a point that are kept, evenly chosen when there were more."""
COLUMNS = frozenset({"key", "kernel", "precision", "operation", "status", "seconds", "visits"})
"""Without any of them a file is not one of samples."""
ENVIRONMENT = b"blockcast.environment."
# They change from minute to minute on one machine.
VOLATILE = ("clocks", "clocks.sm", "clocks.mem")


class SamplesError(ValueError):
    """Samples that cannot be gone on with: taken elsewhere or otherwise, or not samples at all."""


@dataclass
class Samples:
    """The points measured so far and the file they are in."""

    path: Path
    environment: Mapping[str, str]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the key of their point."""

    @classmethod
    def open(cls, path: Path, environment: Mapping[str, str]) -> "Samples":
        """What *path* holds, to go on with; empty where there is no such file.

        Raises SamplesError where it was measured in another environment, naming what differs, and
        where it is no file of samples.
        """
        if not path.exists():
            return cls(path, environment)
        table = _read(path)
        before = environment_of(table)
        changed = [
            f"{name}: {before.get(name)} then, {value} now"
            for name, value in environment.items()
            if name not in VOLATILE and before.get(name) != value
        ]
        if changed:
            rule = f"{path} was measured otherwise ({'; '.join(changed)}); --fresh forgets it"
            raise SamplesError(rule)
        return cls(path, environment, {row["key"]: row for row in table.to_pylist()})

    def visits(self, point: Point) -> int:
        """How often *point* was measured; one that cannot be is done with."""
        row = self.rows.get(point.key)
        if row is None:
            return 0
        return int(row["visits"]) if row["status"] == DONE else DONE_WITH

    def add(self, point: Point, samples_s: FloatArray, status: str = DONE) -> None:
        """Keep the samples of a visit of *point* if it was the fastest, or why there are none."""
        visits = self.visits(point)
        if visits and (status != DONE or np.median(samples_s) >= self.rows[point.key]["seconds"]):
            self.rows[point.key]["visits"] = visits + 1
            return
        kept = samples_s
        if len(kept) > MOST_KEPT:
            kept = kept[np.linspace(0, len(kept) - 1, MOST_KEPT).astype(int)]
        low, middle, high = _quartiles(samples_s)
        self.rows[point.key] = {
            "key": point.key,
            "kernel": point.kernel,
            "precision": point.precision,
            "operation": point.operation,
            "backend": point.backend,
            **{name: float(size) for name, size in point.sizes.items()},
            "flop": point.flop,
            "bytes": point.bytes,
            "status": status,
            "visits": visits + 1,
            "seconds": middle,
            "spread": (high - low) / middle,
            "samples_s": [float(np.float32(sample)) for sample in kept],
        }

    def save(self) -> None:
        """Put all rows in the file at once: a reader sees the old ones or the new, never a part."""
        table = pa.Table.from_pandas(self.table(), preserve_index=False)
        told = {ENVIRONMENT + k.encode(): v.encode() for k, v in self.environment.items()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **told})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            pq.write_table(table, draft, compression="zstd")
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)

    def table(self) -> pd.DataFrame:
        """All rows, sizes that a kernel does not have left empty."""
        return pd.DataFrame(list(self.rows.values()))


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        rule = f"{path} cannot be read as samples: {error}; --fresh replaces it"
        raise SamplesError(rule) from error
    missing = COLUMNS - set(table.column_names)
    if missing:
        rule = f"{path} has no column {', '.join(sorted(missing))}; --fresh replaces it"
        raise SamplesError(rule)
    return table


def _quartiles(samples_s: FloatArray) -> tuple[float, float, float]:
    if not len(samples_s):
        return (np.nan, np.nan, np.nan)
    low, middle, high = np.quantile(samples_s, (0.25, 0.5, 0.75)).tolist()
    return low, middle, high


def environment_of(table: pa.Table) -> dict[str, str]:
    """What the samples of a file were taken on."""
    metadata = table.schema.metadata or {}
    return {
        key.removeprefix(ENVIRONMENT).decode(): value.decode()
        for key, value in metadata.items()
        if key.startswith(ENVIRONMENT)
    }
