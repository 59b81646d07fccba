"""The measured points beside a hardware profile, and which of them the fits have not seen."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hwprofiles.fitting.device import Device
from hwprofiles.fitting.points import (
    DONE,
    SIZES,
    MeasurementError,
    checked,
    fitted_rows,
    unseen,
    with_operation_names,
)
from simulator.documents import DocumentError, Mistake

NEEDED = ("kernel", "precision", "seconds")
# Only a table by message size is made of all of its points.
ALWAYS_SEEN = "all_reduce"


@dataclass(frozen=True)
class MeasuredPoints:
    """The points that curves were fitted to, by kernel; `held_out` tells those no fit has seen."""

    by_kernel: dict[str, pd.DataFrame]

    def rows(self, kernel: str, precision: str | None = None) -> pd.DataFrame:
        """The points of *kernel*, of one data type where one is given; may have no rows."""
        if kernel not in self.by_kernel:
            columns = [*SIZES[kernel], "seconds", "held_out", "operation"]
            return pd.DataFrame(columns=columns, dtype=np.float64)
        rows = self.by_kernel[kernel]
        wanted = rows if precision is None else rows[rows["precision"] == precision]
        named = with_operation_names(wanted)
        return named[[*SIZES[kernel], "seconds", "held_out", "operation"]]


NO_POINTS = MeasuredPoints({})


def read_points(path: Path) -> MeasuredPoints:
    """The points of a Parquet file; raises DocumentError saying what is wrong with it."""
    table = _parquet(path)
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise _wrong(path, f"has no column {', '.join(missing)}")
    table = table.assign(
        status=table.get("status", DONE),
        operation=table["operation"].fillna("") if "operation" in table else "",
    )
    measured = table[table["status"] == DONE]
    try:
        found = {name: _kernel(measured, name, path) for name in SIZES}
    except MeasurementError as error:
        raise _wrong(path, str(error).removeprefix(f"{path}: ")) from error
    return MeasuredPoints({name: rows for name, rows in found.items() if len(rows)})


def _kernel(measured: pd.DataFrame, kernel: str, path: Path) -> pd.DataFrame:
    mine = measured[measured["kernel"] == kernel]
    if mine.empty:
        return mine
    columns = [*SIZES[kernel], "seconds"]
    sound = checked(mine, kernel, str(path))
    kept = fitted_rows(sound.assign(**{name: pd.to_numeric(sound[name]) for name in columns}))
    if kernel == ALWAYS_SEEN:
        return kept.assign(held_out=False)
    return kept.assign(held_out=unseen(kept, kernel, one_in=Device.held_out_in))


def _parquet(path: Path) -> pd.DataFrame:
    if path.is_dir():
        raise _wrong(path, "is a folder; a Parquet file is needed")
    try:
        with path.open("rb") as content, pq.ParquetFile(content) as file:
            table: pd.DataFrame = file.read().to_pandas()
    except pa.ArrowInvalid as error:
        raise _wrong(path, f"is no Parquet file: {error}") from error
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    return table


def _wrong(path: Path, what: str) -> DocumentError:
    return DocumentError(str(path), [Mistake("", what)])
