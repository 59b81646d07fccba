"""Rows of one kernel gathered over frameworks, and their medians."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from hwprofiles.fitting.points import SIZES
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.package import System
from hwprofiles.importers.table import MILLISECOND_S, numbers, read_parquet

LATENCY = "latency"
SOURCE = "kernel_source"
BF16 = "bfloat16"
Choice = Callable[[pd.DataFrame, str], pd.DataFrame]
"""Of a table and its framework the rows to take, with the sizes of the kernel and `type`."""


@dataclass(frozen=True)
class Table:
    """A table of the package: where it is, its columns, and which data types a profile has."""

    family: str
    name: str
    sizes: Sequence[str]
    """Columns of numbers."""
    types: str
    """Column of the data type."""
    known: Sequence[str]
    """Data types that a profile has."""
    labels: Sequence[str] = ()
    optional: Mapping[str, str | int] = field(default_factory=dict)
    """Columns that some versions lack, and what that means."""

    @property
    def columns(self) -> list[str]:
        """Those that every version has."""
        return [self.types, *self.labels, *self.sizes, LATENCY]


@dataclass(frozen=True)
class Found:
    """Points of one kernel and data type and what they are; none where nothing was measured."""

    kernel: str
    precision: str
    points: pd.DataFrame
    note: str


@dataclass(frozen=True)
class Collection:
    """What a system's tables hold, of some frameworks or of all, and what was passed over."""

    system: System
    cold: Cold
    only: Sequence[str] = ()
    left_out: dict[Path, Counter[str]] = field(default_factory=dict)
    """By table the rows of data types that no profile has."""

    def frameworks(self, family: str) -> list[str]:
        """Who measured a family, of those wanted."""
        there = self.system.frameworks(family)
        return [name for name in there if not self.only or name in self.only]

    def medians(
        self,
        kernel: str,
        table: Table,
        choose: Choice,
        *,
        frameworks: Sequence[str] | None = None,
        is_common: bool = False,
    ) -> tuple[pd.DataFrame, str]:
        """Medians over frameworks of what *choose* takes of each one's newest table, and words.

        With *is_common*, a point needs times of all frameworks that have any.
        """
        names = self.frameworks(table.family) if frameworks is None else frameworks
        found = [rows for name in names for rows in self._newest(table, name, choose) if len(rows)]
        if not found:
            return pd.DataFrame(columns=[*SIZES[kernel], "seconds"]), ""
        told = ", ".join(
            f"{rows['framework'].iloc[0]} {rows['version'].iloc[0]} {len(rows)} rows"
            for rows in found
        )
        least = len(found) if is_common else 1
        return medians(pd.concat(found), kernel, least), f"{table.name}: {told}"

    def _newest(self, table: Table, framework: str, choose: Choice) -> list[pd.DataFrame]:
        """The rows taken of a framework; a version without any only supplements an older one."""
        for version, path in self.system.versions(table.family, framework, table.name):
            rows = read_parquet(path, table.columns, {SOURCE: "", **table.optional})
            is_known = rows[table.types].isin(table.known)
            self.left_out[path] = Counter(rows.loc[~is_known, table.types].astype(str).tolist())
            chosen = choose(numbers(path, rows[is_known], [*table.sizes, LATENCY]), framework)
            if len(chosen):
                return [chosen.assign(framework=framework, version=version)]
        return []


def medians(rows: pd.DataFrame, kernel: str, least_frameworks: int = 1) -> pd.DataFrame:
    """One row per size: the median over frameworks and types, of the fastest kernel of each.

    Sizes of fewer than *least_frameworks* are left out.
    """
    sizes, who = list(SIZES[kernel]), ["framework", "version", "type"]
    repeats = rows.groupby([*sizes, *who, SOURCE], sort=True)[LATENCY].median()
    rows = repeats.groupby([*sizes, *who]).min().reset_index()
    fastest = rows.pivot_table(index=sizes, columns=who, values=LATENCY)
    count = fastest.notna().T.groupby(level="framework").any().sum()
    fastest = fastest[count >= least_frameworks]
    middle = fastest.median(axis=1) * MILLISECOND_S
    return (
        middle.rename("seconds")
        .reset_index()
        .assign(framework=_who(fastest, "framework"), version=_who(fastest, "version"))
    )


def _who(fastest: pd.DataFrame, level: str) -> list[str]:
    """For each size the names that have a time of it."""
    names = fastest.columns.get_level_values(level)
    patterns, inverse = np.unique(fastest.notna().to_numpy(), axis=0, return_inverse=True)
    told = [", ".join(dict.fromkeys(names[pattern])) for pattern in patterns]
    return [told[index] for index in inverse.ravel()]
