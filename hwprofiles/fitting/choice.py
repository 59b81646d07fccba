"""Chooses among forms of a curve by their errors on points that each trial leaves out."""

import zlib
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np

from hwprofiles.fitting.points import Points
from hwprofiles.provenance import Residual

FOLDS = 3


class Judged(Protocol):
    """A curve that was judged on the points its fit did not see."""

    @property
    def residual(self) -> Residual:
        """Of those points."""


Curve = TypeVar("Curve", bound=Judged)


def best(
    candidates: Mapping[str, Callable[[Points], Curve]], points: Points, keys: list[str]
) -> tuple[Curve, str]:
    """The curve of the candidate that errs least, and how they compared in words.

    Each is tried on thirds of the points it may see; held-out points take no part in the choice.
    """
    if len(candidates) == 1:
        return next(iter(candidates.values()))(points), ""
    errors = {name: left_out_error(fit, points, keys) for name, fit in candidates.items()}
    ordered = sorted(errors, key=lambda name: errors[name])
    told = ", ".join(f"{name} {errors[name]:.1%}" for name in ordered)
    return candidates[ordered[0]](points), f"forms by median error on thirds left out: {told}"


def left_out_error(fit: Callable[[Points], Judged], points: Points, keys: list[str]) -> float:
    """Mean over thirds of what the fit may see of its median error on the third left out."""
    seen = points.seen.reset_index(drop=True)
    names = seen[keys].astype(str).agg(" ".join, axis=1)
    thirds = np.array([zlib.crc32(f"third {name}".encode()) % FOLDS for name in names])
    return float(np.mean([fit(Points(seen, thirds == i)).residual.median for i in range(FOLDS)]))
