"""An elementwise kernel: read, compute a little, write."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.by_head_dim import SizeTable
from hwprofiles.curves.smooth import outside_domain
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Domain, FloatArray, Positive, Text


@dataclass(frozen=True)
class OperationCost:
    """t = launch + bytes/bandwidth of one operation that was timed on its own, or its table.

    A table takes in what a closed form cannot: a CPU that goes from one cache to the next.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    launch_s: Positive
    memory_bytes_per_s: Positive
    residual: Residual
    table: SizeTable | None = None
    """Seconds by bytes, where there is one."""

    def seconds(self, moved_bytes: FloatArray) -> FloatArray:
        """Time to move *moved_bytes*, above zero."""
        if self.table is not None:
            return self.table.lookup(moved_bytes)
        closed: FloatArray = self.launch_s + moved_bytes / self.memory_bytes_per_s
        return closed


@dataclass(frozen=True)
class StreamingCurve:
    """t = launch + row bytes/row bandwidth + bytes/bandwidth, reading cold memory.

    A kernel that gives each row to one thread block (RMSNorm, rotary, SwiGLU) takes at least the
    time of a row, however few rows there are: *row_bytes_per_s* is what one block moves. A kernel
    spread over the whole GPU whatever its shape has no row term. Operations timed on their own
    have a launch and a bandwidth of their own: on a CPU they are several kernels.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["streaming"]
    launch_s: Positive
    memory_bytes_per_s: Positive
    row_bytes_per_s: Positive
    residual: Residual
    row_residual: Residual
    """Of row kernels, on the rows that the row bandwidth was not fitted to."""
    domain: Domain
    source: Source
    operations: dict[Text, OperationCost] | None = None
    """By data type and name: bf16 norm, fp32 rotary, bf16 swiglu, fp32 confidence ..."""

    def time(
        self, bytes_moved: npt.ArrayLike, row_bytes: float = 0.0, operation: str = ""
    ) -> KernelTime:
        """Time to read and write *bytes_moved* in all, seconds, in its shape; 0 bytes cost 0.

        *row_bytes* is what one row moves, for a kernel that gives each row to one block;
        *operation* its name, by which it may have been timed on its own.
        """
        moved = np.asarray(bytes_moved, dtype=np.float64)
        own = (self.operations or {}).get(operation)
        nothing = np.zeros(moved.shape)
        memory = moved / (own or self).memory_bytes_per_s
        if own is not None and own.table is not None:
            present = moved > 0
            seconds = np.where(present, own.table.lookup(np.where(present, moved, 1.0)), 0.0)
            memory = np.minimum(memory, seconds)
            return KernelTime(seconds, nothing, memory, nothing, seconds - memory)
        alone = own.launch_s if own else self.launch_s + row_bytes / self.row_bytes_per_s
        launch = np.where(moved > 0, alone, 0.0)
        return KernelTime(
            seconds=launch + memory,
            compute_s=nothing,
            memory_s=memory,
            link_s=nothing,
            launch_s=launch,
        )

    def outside(
        self,
        bytes_moved: npt.ArrayLike,
        row_bytes: float = 0.0,
        operation: str = "",  # noqa: ARG002 (as time)
    ) -> list[str]:
        """What about this size lies outside the fitted range; one sentence each."""
        values = {"bytes_moved": bytes_moved, "row_bytes": row_bytes}
        return outside_domain(self.domain, values)
