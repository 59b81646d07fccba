"""Where a number comes from and how far it is from what was measured."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from hwprofiles.quantities import NonNegative, Tally, Text


@dataclass(frozen=True)
class Residual:
    """Relative absolute errors on *points* measurements that were held out of the fit."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    median: NonNegative
    p90: NonNegative
    points: Tally


@dataclass(frozen=True)
class Source:
    """How a set of numbers was obtained, and by whom, with which software and from which rows."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    kind: Literal["datasheet", "measured", "fitted"]
    text: Text
