"""Spaces: the values that a field can have in a sample or a search."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, Protocol

import numpy as np
from pydantic import Field, PlainValidator, Strict

from simulator.documents import check, shown
from simulator.model import STRICT

MOST: Final = 10**18
"""Size of an end; what is drawn is a machine's number."""
MOST_STEPS: Final = 2**31
AS_WHOLE_STEPS: Final = 1e-9
"""Of a step: what a division may lack, since 0.3 / 0.1 is a little below 3."""
DIGITS: Final = 15
"""Of a number in steps: 0.1 + 2 * 0.1 is 0.3."""


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        message = f"must be a number from -{MOST:.0e} to {MOST:.0e}, got {shown(value)}"
        raise ValueError(message)
    return value


Number = Annotated[int | float, PlainValidator(_number)]


class Space(Protocol):
    """Where values come from."""

    def draw(self, generator: np.random.Generator) -> Any:  # noqa: ANN401 (a YAML value)
        """One of its values, all as likely."""


@dataclass(frozen=True)
class Choices:
    """The values themselves."""

    values: tuple[Any, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether they are numbers that rise or fall: neighbours are alike then."""
        if any(isinstance(v, bool) or not isinstance(v, int | float) for v in self.values):
            return False
        signs = {(b > a) - (b < a) for a, b in pairwise(self.values)}
        return signs in ({1}, {-1})

    def draw(self, generator: np.random.Generator) -> Any:  # noqa: ANN401 (a YAML value)
        """One of the values."""
        return self.values[int(generator.integers(len(self.values)))]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Numbers from *low* to *high*, both included; whole ones where both are.

    In steps of *step* from *low*, or as likely in every range of the same ratio (*log*).
    """

    __pydantic_config__ = STRICT

    low: Number
    high: Number
    log: Annotated[bool, Strict()] = False
    step: Annotated[Number, Field(gt=0)] | None = None

    def __post_init__(self) -> None:
        """Refuse an interval without numbers in it."""
        if self.low > self.high:
            message = f"low is at most high, got {self.low} and {self.high}"
            raise ValueError(message)
        if self.log and (self.low <= 0 or self.step is not None):
            message = f"log needs low above zero and no step, got low {self.low}"
            raise ValueError(message)
        if self.is_whole and isinstance(self.step, float):
            message = f"a step of whole numbers is whole, got {self.step}"
            raise ValueError(message)
        if self.step is not None and (self.high - self.low) / self.step > MOST_STEPS:
            message = f"{self.step} is too small a step from {self.low} to {self.high}"
            raise ValueError(message)

    @property
    def is_whole(self) -> bool:
        """Whether all its numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def last_step(self) -> int | None:
        """The number of the last of its values, from 0; None where they are not in steps."""
        step = self.step or (1 if self.is_whole and not self.log else None)
        if step is None:
            return None
        return math.floor((self.high - self.low) / step + AS_WHOLE_STEPS)

    def at_step(self, number: int) -> int | float:
        """The value of that *number*, from 0."""
        value = self.low + (self.step or 1) * number
        return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")

    def draw(self, generator: np.random.Generator) -> int | float:
        """One of the numbers."""
        if self.last_step is not None:
            return self.at_step(int(generator.integers(self.last_step + 1)))
        if not self.log:
            return float(generator.uniform(self.low, self.high))
        return self._log_draw(generator)

    def _log_draw(self, generator: np.random.Generator) -> int | float:
        # A whole number has the weight of the stretch that is rounded to it.
        half = 0.5 if self.is_whole else 0.0
        ends = math.log(self.low - half), math.log(self.high + half)
        drawn = math.exp(generator.uniform(*ends))
        inside = min(max(drawn, self.low), self.high)
        return round(inside) if self.is_whole else inside


def space_of(value: object) -> Choices | Interval:
    """The space that a document's *value* says; raises ValueError with what is wrong."""
    if isinstance(value, list):
        if value:
            return Choices(tuple(value))
        message = "a list of values has at least one"
        raise ValueError(message)
    if not isinstance(value, dict):
        message = f"a list of values, or low and high, got {shown(value)}"
        raise ValueError(message)  # noqa: TRY004 (as of any wrong value)
    found, mistakes = check(Interval, value)
    if found is None:
        raise ValueError("; ".join(map(str, mistakes)))
    return found
