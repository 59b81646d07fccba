"""Measured points in one form, whoever measured them: the sizes of a kernel and its seconds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.fitting.judging import column, held_out
from hwprofiles.profile import DOMAINS
from hwprofiles.quantities import FloatArray

_BATCH = ("sequences", "query_tokens", "kv_tokens", "query_heads", "kv_heads", "head_dim")
SIZES: Mapping[str, tuple[str, ...]] = DOMAINS | {
    "attention_extend": _BATCH,
    "attention_prefill": _BATCH,
}
"""The columns that describe a point of each kernel, named as its cost curve's inputs."""


MOST_NAMED = 5


@dataclass(frozen=True)
class Points:
    """Rows of sizes (columns as in SIZES) and `seconds`; which ones a fit may not see."""

    table: pd.DataFrame
    unseen: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_] | None = None
    """Which of the unseen the curve is judged on; all of them when None."""

    @property
    def seen(self) -> pd.DataFrame:
        """The rows a fit is made to."""
        return self.table[~self.unseen]

    @property
    def judges(self) -> pd.DataFrame:
        """The rows a curve is judged on."""
        return self.table[self.unseen if self.judged is None else self.unseen & self.judged]


ALL_SIZES = tuple(dict.fromkeys(name for names in SIZES.values() for name in names))
DONE = "measured"
"""Status of a row that has a time."""


def fitted_rows(samples: pd.DataFrame) -> pd.DataFrame:
    """Of raw *samples* what curves are fitted to: measured, by the fastest backend, unmasked.

    Where queries over a prefix are masked among themselves, libraries take another kernel; those
    points are kept for comparison (see `masked_over_whole`).
    """
    measured = samples[samples["status"] == DONE]
    kept = measured[~_is_masked(measured)]
    sizes = [name for name in ALL_SIZES if name in kept]
    keys = ["kernel", "precision", "operation", *sizes]
    fastest = kept.groupby(keys, dropna=False)["seconds"].idxmin()
    return kept.loc[fastest].reset_index(drop=True)


def with_operation_names(samples: pd.DataFrame) -> pd.DataFrame:
    """*samples* with `operation` as cost curves name it: data type and name, as fp32 norm."""
    return samples.assign(operation=samples["precision"] + " " + samples["operation"])


def masked_over_whole(samples: pd.DataFrame) -> tuple[float, int] | None:
    """How much longer a causal mask makes queries over a prefix: median ratio and points."""
    measured = samples[samples["status"] == DONE]
    masked = measured[_is_masked(measured)]
    keys = ["precision", *SIZES["attention_extend"]]
    if masked.empty:
        return None
    pairs = masked.merge(fitted_rows(samples), on=keys, suffixes=("_masked", "_whole"))
    if pairs.empty:
        return None
    return float((pairs["seconds_masked"] / pairs["seconds_whole"]).median()), len(pairs)


def _is_masked(rows: pd.DataFrame) -> pd.Series:
    extends = rows["kernel"] == "attention_extend"
    return extends & (rows["operation"] == "causal")


def unseen(rows: pd.DataFrame, kernel: str, *, one_in: int) -> npt.NDArray[np.bool_]:
    """Which *rows* of a kernel no fit of it may see: one in this many, by their sizes."""
    keys = list(SIZES[kernel])
    return held_out(rows[keys].astype(float), keys, one_in=one_in)


class MeasurementError(ValueError):
    """Measured points that no curve can be fitted to."""


def checked(rows: pd.DataFrame, kernel: str, origin: str) -> pd.DataFrame:
    """*rows* with the sizes of *kernel* and `seconds` as they should be, numbered from zero.

    Raises MeasurementError naming *origin*, what columns are missing, or which rows have a size
    that is negative or missing, or a time that is not above zero and finite.
    """
    columns = [*SIZES[kernel], "seconds"]
    missing = [name for name in columns if name not in rows]
    if missing:
        rule = f"{origin}: {kernel} points have no column {', '.join(missing)}"
        raise MeasurementError(rule)
    values = rows[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~np.isfinite(values) | (values < 0)
    wrong[:, -1] |= values[:, -1] == 0
    if wrong.any():
        raise MeasurementError(_wrong(rows[columns], wrong, f"{origin}: {kernel} points"))
    return rows.reset_index(drop=True)


def _wrong(rows: pd.DataFrame, wrong: npt.NDArray[np.bool_], origin: str) -> str:
    """The first rows with a wrong number, and how many there are."""
    places = np.argwhere(wrong)
    named = [f"{rows.columns[at]} of row {row}: {rows.iloc[row, at]}" for row, at in places]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    rule = "sizes are not negative and times are above zero"
    return f"{origin}: {rule}, got {'; '.join(named[:MOST_NAMED])}{more}"


def seconds(table: pd.DataFrame) -> FloatArray:
    """The measured times."""
    return column(table, "seconds")
