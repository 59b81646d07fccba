"""Service-level objectives: limits that a request must keep to count as well served."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from simulator.quantities import Seconds

FloatArray = npt.NDArray[np.float64]

FAR_ABOVE: Final = 100
"""Times the longest time that any request took: such a limit was hardly meant."""


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Most seconds of each metric of a request; one that is absent is no limit."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    ttft: Seconds | None = None
    tpot: Seconds | None = None
    latency: Seconds | None = None
    queueing: Seconds | None = None

    def __post_init__(self) -> None:
        """Refuse limits without any."""
        if not self.limits:
            message = f"name at least one limit of: {', '.join(f.name for f in fields(self))}"
            raise ValueError(message)

    @property
    def limits(self) -> dict[str, float]:
        """Seconds by metric."""
        return {name: limit for name, limit in vars(self).items() if limit is not None}

    def idle(self, times_s: Mapping[str, FloatArray]) -> Iterator[str]:
        """Sentences on limits far above what any request took, *times_s* as in `met`.

        A wait for admission is held against whole latencies, since often nobody waits.
        """
        for name, limit in self.limits.items():
            taken = times_s["latency" if name == "queueing" else name]
            longest = float(np.nanmax(taken)) if np.isfinite(taken).any() else math.inf
            if limit > FAR_ABOVE * longest:
                yield (
                    f"slo.{name} is {limit:g} s, more than {FAR_ABOVE} times what any request took "
                    f"({longest:.3g} s): it limits nothing; for milliseconds write {limit:g}ms"
                )

    def met(self, times_s: Mapping[str, FloatArray]) -> npt.NDArray[np.bool_]:
        """Which requests keep every limit; *times_s* has [requests] of each metric.

        A request to which a metric does not apply (nan) keeps any limit of it.
        """
        kept = np.array([~(times_s[name] > limit) for name, limit in self.limits.items()])
        every: npt.NDArray[np.bool_] = np.all(kept, axis=0)
        return every
