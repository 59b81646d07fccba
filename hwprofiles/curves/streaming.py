"""An elementwise kernel: read, compute a little, write."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Domain, Positive


@dataclass(frozen=True)
class StreamingCurve:
    """t = launch + bytes/bandwidth, for a kernel inside a CUDA graph reading cold memory."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["streaming"]
    launch_s: Positive
    memory_bytes_per_s: Positive
    residual: Residual
    domain: Domain
    source: Source

    def time(self, bytes_moved: npt.ArrayLike) -> KernelTime:
        """Time to read and write *bytes_moved* in all, seconds, in its shape; 0 bytes cost 0."""
        moved = np.asarray(bytes_moved, dtype=np.float64)
        memory = moved / self.memory_bytes_per_s
        launch = np.where(moved > 0, self.launch_s, 0.0)
        nothing = np.zeros(moved.shape)
        return KernelTime(
            seconds=launch + memory,
            compute_s=nothing,
            memory_s=memory,
            link_s=nothing,
            launch_s=launch,
        )

    def outside(self, bytes_moved: npt.ArrayLike) -> list[str]:
        """What about this size lies outside the fitted range; one sentence each."""
        return outside_domain(self.domain, {"bytes_moved": bytes_moved})
