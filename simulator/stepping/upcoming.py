"""Upcoming: the next steps of a batch, priced."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Upcoming:
    """Columns over the next steps, [steps]."""

    seconds: FloatArray
    counts: FloatArray
    """[4, steps]: requests, those with queries in the step, query tokens, tokens that come out."""
    kv_bytes: FloatArray
    """Held by the rows that decode."""
    forwards: int
    """Launches of passes in each step."""
