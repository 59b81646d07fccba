"""The all-reduce of tensor parallelism over the GPU-to-GPU links of one node."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain
from hwprofiles.curves.tables import between_rows, check_rising
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Domain, FloatArray, Positive


@dataclass(frozen=True)
class MessageTable:
    """Seconds by message size, both rising; one table per number of GPUs."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    message_bytes: list[Positive]
    seconds: list[Positive]

    def __post_init__(self) -> None:
        """Raise ValueError, naming the rows, where the table cannot be read or falls."""
        check_rising("message_bytes", self.message_bytes, "seconds", self.seconds)

    def lookup(self, message_bytes: FloatArray) -> FloatArray:
        """Seconds, linear between rows in the logarithms; flat below, last slope above."""
        sizes, times = np.asarray(self.message_bytes), np.asarray(self.seconds)
        last_slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        beyond: FloatArray = np.maximum(message_bytes - sizes[-1], 0.0) * last_slope
        return between_rows(message_bytes, self.message_bytes, self.seconds) + beyond


@dataclass(frozen=True)
class AllReduceCurve:
    """A table by message size for each number of GPUs: algorithms switch with the size."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["all-reduce"]
    by_ranks: dict[Count, MessageTable]
    residual: Residual
    residual_by_ranks: dict[Count, Residual]
    domain: Domain
    source: Source

    def time(self, message_bytes: npt.ArrayLike, ranks: int) -> KernelTime:
        """Time to sum *message_bytes* over *ranks* GPUs, seconds, in the shape of the sizes.

        0 bytes, or one rank, cost nothing. Raises ValueError for a number of ranks not measured.
        """
        sizes = np.asarray(message_bytes, dtype=np.float64)
        nothing = np.zeros(sizes.shape)
        if ranks == 1:
            return KernelTime(nothing, nothing, nothing, nothing, nothing)
        if ranks not in self.by_ranks:
            known = ", ".join(str(count) for count in sorted(self.by_ranks))
            rule = f"no all-reduce measured over {ranks} GPUs; known: {known}"
            raise ValueError(rule)
        table = self.by_ranks[ranks]
        present = sizes > 0
        seconds = np.where(present, table.lookup(np.where(present, sizes, 1.0)), 0.0)
        # Rounding in the logarithms may put a small message a hair below the first row.
        launch = np.minimum(np.where(present, table.seconds[0], 0.0), seconds)
        return KernelTime(
            seconds=seconds,
            compute_s=nothing,
            memory_s=nothing,
            link_s=seconds - launch,
            launch_s=launch,
        )

    def outside(self, message_bytes: npt.ArrayLike, ranks: int) -> list[str]:
        """What about this message lies outside the measured range; one sentence each."""
        if ranks == 1:
            return []
        return outside_domain(self.domain, {"message_bytes": message_bytes, "ranks": ranks})
