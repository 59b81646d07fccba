"""Service-level objectives: limits that a request must keep to count as well served."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from simulator.quantities import Seconds

FloatArray = npt.NDArray[np.float64]


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

    def met(self, times_s: Mapping[str, FloatArray]) -> npt.NDArray[np.bool_]:
        """Which requests keep every limit; *times_s* has [requests] of each metric.

        A request to which a metric does not apply (nan) keeps any limit of it.
        """
        kept = np.array([~(times_s[name] > limit) for name, limit in self.limits.items()])
        every: npt.NDArray[np.bool_] = np.all(kept, axis=0)
        return every
