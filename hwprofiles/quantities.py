"""Number types of the profile: strict, finite, and bounded where it matters."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, Strict

FloatArray = npt.NDArray[np.float64]

Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(gt=0)]
Tally = Annotated[int, Strict(), Field(ge=0)]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict(), Field(min_length=1)]


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        rule = f"the lower bound comes first: {bounds[0]:g} > {bounds[1]:g}"
        raise ValueError(rule)
    return bounds


Bounds = Annotated[tuple[Finite, Finite], AfterValidator(_ordered)]
Domain = dict[str, Bounds]
