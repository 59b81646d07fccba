"""How many requests of a trace came out right, of those that could be checked."""

import math

import numpy as np
import pyarrow as pa

from traces.columns import BoolArray


def accuracy(requests: pa.Table) -> dict[str, float | None]:
    """Shares of requests that are correct and valid, with standard errors; None of nothing."""
    correct, valid = (_known(requests, name) for name in ("correct", "valid"))
    return {
        "accuracy": share(correct),
        "accuracy_standard_error": standard_error(correct),
        "valid": share(valid),
        "valid_standard_error": standard_error(valid),
    }


def _known(requests: pa.Table, column: str) -> BoolArray:
    """A column of yes and no, without the requests that could not be checked."""
    return np.asarray(requests[column].drop_null().to_numpy(), dtype=np.bool_)


def share(said: BoolArray) -> float | None:
    """Share of yes; None of nothing."""
    return float(said.mean()) if len(said) else None


def standard_error(said: BoolArray) -> float | None:
    """Of that share, the outcomes being independent: sqrt(p (1 - p) / n)."""
    yes = share(said)
    return None if yes is None else math.sqrt(yes * (1.0 - yes) / len(said))
