"""Robust least squares on the logarithm of the time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.optimize import least_squares

from hwprofiles.quantities import FloatArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Curve = TypeVar("Curve", bound=DataclassInstance)
else:
    Curve = TypeVar("Curve")

# Relative errors beyond this weigh linearly: isolated spikes of 2-3x must not steer a fit.
SOFT_ERROR = 0.05
SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True)
class Search:
    """Where a positive parameter is looked for: from *start*, between *low* and *high*."""

    start: float
    low: float
    high: float


def starts(search: Mapping[str, Search]) -> dict[str, Any]:
    """The parameters a fit begins with."""
    return {name: each.start for name, each in search.items()}


def significant(value: float) -> float:
    """*value* to the digits a profile keeps."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def fit(
    template: Curve,
    search: Mapping[str, Search],
    *,
    predict: Callable[[Curve], FloatArray],
    measured_s: FloatArray,
    weight: FloatArray | float = 1.0,
) -> Curve:
    """*template* with the parameters of *search* that bring predict(curve) nearest *measured_s*.

    Parameters are searched in their logarithms and come back with the digits a profile keeps.
    """

    def curve(logarithms: FloatArray) -> Curve:
        values: dict[str, Any] = dict(zip(search, np.exp(logarithms).tolist(), strict=True))
        return replace(template, **values)

    def errors(logarithms: FloatArray) -> FloatArray:
        return np.asarray(weight * np.log(predict(curve(logarithms)) / measured_s))

    found = least_squares(
        errors,
        np.log([each.start for each in search.values()]),
        bounds=(
            np.log([each.low for each in search.values()]),
            np.log([each.high for each in search.values()]),
        ),
        loss="soft_l1",
        f_scale=SOFT_ERROR,
    )
    rounded: dict[str, Any] = {
        name: significant(value) for name, value in zip(search, np.exp(found.x), strict=True)
    }
    return replace(template, **rounded)
