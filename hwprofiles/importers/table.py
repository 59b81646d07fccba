"""One table of measured times as its publisher wrote it, checked before any of it is used."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

MOST_NAMED = 5
MILLISECOND_S = 1e-3
COUNTS = frozenset({"step", "kv_cache_size", "prefill_chunk_size"})
"""Columns that may be zero: tokens before a pass, and tokens of a prompt where there is none."""


class TableError(ValueError):
    """A table that is missing, unreadable, or not what its publisher's format says."""

    def __init__(self, origin: Path | str, what: str) -> None:
        """Keep the file or folder and what is wrong with it."""
        self.origin = str(origin)
        self.what = what
        super().__init__(f"{origin}: {what}")


def read_parquet(
    path: Path, columns: list[str], optional: Mapping[str, str | int] | None = None
) -> pd.DataFrame:
    """The *columns* of a Parquet table, and the *optional* ones, which have a value where absent.

    Raises TableError where the file cannot be read or lacks a column.
    """
    beside = optional or {}
    try:
        file = pq.ParquetFile(path)
        there = set(file.schema_arrow.names)
        require(path, columns, there)
        wanted = [name for name in (*columns, *beside) if name in there]
        table: pd.DataFrame = file.read(columns=wanted).to_pandas()
    except pa.ArrowException as error:
        raise TableError(path, f"is no readable Parquet table: {error}") from error
    except OSError as error:
        raise TableError(path, f"cannot be read: {error.strerror or error}") from error
    for name in beside.keys() - there:
        table[name] = beside[name]
    return table


def read_csv(path: Path, columns: list[str]) -> pd.DataFrame:
    """A CSV table that has at least the *columns*; raises TableError."""
    try:
        table = pd.read_csv(path, low_memory=False)
    except (ValueError, UnicodeDecodeError) as error:
        raise TableError(path, f"is no readable CSV table: {error}") from error
    except OSError as error:
        raise TableError(path, f"cannot be read: {error.strerror or error}") from error
    require(path, columns, set(table.columns))
    return table


def require(path: Path, columns: list[str], there: set[str]) -> None:
    """Raise TableError where one of *columns* is not *there*."""
    missing = [name for name in columns if name not in there]
    if missing:
        raise TableError(path, f"has no column {', '.join(missing)}")


def numbers(path: Path, rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """*rows* with *columns* as numbers: above zero, or not below it for the COUNTS.

    Raises TableError naming the rows where they are not, numbered as in the file from zero.
    """
    made = rows[list(columns)].apply(pd.to_numeric, errors="coerce").astype(np.float64)
    may_be_zero = np.array([name in COUNTS for name in columns])
    values = made.to_numpy()
    wrong = ~np.isfinite(values) | (values < 0) | ((values == 0) & ~may_be_zero)
    if wrong.any():
        raise TableError(path, _wrong(rows[list(columns)], wrong))
    return rows.assign(**{name: made[name] for name in columns})


def _wrong(rows: pd.DataFrame, wrong: npt.NDArray[np.bool_]) -> str:
    """The first wrong numbers, and how many there are."""
    places = np.argwhere(wrong)
    told = [
        f"{rows.columns[column]} of row {rows.index[row]}: {rows.iloc[row, column]}"
        for row, column in places[:MOST_NAMED]
    ]
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return f"sizes and times are numbers above zero, got {'; '.join(told)}{more}"
