"""The families of kernels that are timed: one module each, with `points` and `calls`.

`points(served)` lists what to measure; `calls(point, pool)` are callables that each run the kernel
once, on another copy of its cold operands.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from typing import Protocol

from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.pool import Pool
from kernels_ref.profiling.served import Served


class Family(Protocol):
    """What a module of this folder has."""

    KERNELS: tuple[str, ...]
    """Of the points it lists."""

    def points(self, served: Served) -> Iterator[Point]:
        """What to measure, in any order."""

    def calls(self, point: Point, pool: Pool) -> Sequence[Call]:
        """Callables that run the kernel once each; raises DoesNotFitError, or torch's own error."""


def families() -> dict[str, Family]:
    """Every family by the name of its module."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
