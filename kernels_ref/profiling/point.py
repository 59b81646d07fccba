"""A point of the measuring grid: one kernel at one size."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DataType = Literal["bf16", "fp8", "fp32"]

ELEMENT_BYTES: Mapping[DataType, float] = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}


@dataclass(frozen=True)
class Point:
    """One kernel at one size; a lower *level* is measured earlier."""

    kernel: str
    """As cost curves are called: gemm, attention_extend ..."""
    precision: DataType
    sizes: Mapping[str, float]
    """What its cost curve takes."""
    level: int
    flop: float
    bytes: float
    """Read and written, each once; a lower bound of the time follows from it."""
    operation: str = ""
    """Which of the kernels that share a cost curve."""
    shape: tuple[int, ...] = field(default=())
    """What *operation* needs to know beside the sizes."""
    backend: str = ""
    """Which implementation, where several are timed."""

    @property
    def key(self) -> str:
        """The same for the same measurement, whenever it is made."""
        sizes = " ".join(f"{name}={value:g}" for name, value in self.sizes.items())
        return (
            f"{self.kernel} {self.precision} {self.operation} {self.backend} {self.shape} {sizes}"
        )
