"""Tables of seconds by size, for each head size that was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict

from hwprofiles.curves.tables import check_rising, in_proportion_above
from hwprofiles.quantities import FloatArray, Positive


@dataclass(frozen=True)
class SizeTable:
    """Seconds by a size, both rising."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    sizes: list[Positive]
    seconds: list[Positive]

    def __post_init__(self) -> None:
        """Raise ValueError, naming the rows, where the table cannot be read or falls."""
        check_rising("sizes", self.sizes, "seconds", self.seconds)

    def lookup(self, sizes: FloatArray) -> FloatArray:
        """Linear in the logarithms; flat below, in proportion to the size above."""
        return in_proportion_above(sizes, self.sizes, self.seconds)


def check_head_sizes(tables: Mapping[int, SizeTable]) -> None:
    """Raise ValueError where no head size is tabulated."""
    if not tables:
        rule = "by_head_dim has a table for at least one head size, got none"
        raise ValueError(rule)


def at_head_dim(tables: Mapping[int, SizeTable], head_dim: int, sizes: FloatArray) -> FloatArray:
    """Seconds at *sizes* for *head_dim*: between the nearest head sizes in the logarithms.

    Beyond the least and the largest in proportion to the head size.
    """
    known = sorted(tables)
    below = max((size for size in known if size <= head_dim), default=known[0])
    above = min((size for size in known if size >= head_dim), default=known[-1])
    low, high = (tables[size].lookup(sizes) for size in (below, above))
    if below == above:
        return low * (head_dim / below)
    share = np.log(head_dim / below) / np.log(above / below)
    found: FloatArray = low ** (1 - share) * high**share
    return found
