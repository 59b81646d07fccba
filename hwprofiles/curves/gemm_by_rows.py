"""The dense product where the time of a weight is tabulated by the number of rows."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain
from hwprofiles.curves.tables import check_rising, in_proportion_above, tabulated_product
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Domain, FloatArray, Positive


@dataclass(frozen=True)
class GemmByRowsCurve:
    """t = launch_s + n k weight_s(m): a weight costs the same in every matrix.

    Libraries change their kernel and their packing with the number of rows m, so no roofline
    describes how weight_s rises; it is tabulated, linear between rows in the logarithms, flat
    below the first row and in proportion to m beyond the last.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["gemm-by-rows"]
    launch_s: Positive
    rows: list[Positive]
    weight_s: list[Positive]
    memory_bytes_per_s: Positive
    """The fastest that weights were read: what memory alone would allow."""
    flop_per_s: Positive
    """The fastest that was calculated: what arithmetic alone would allow."""
    weight_element_bytes: Positive
    residual: Residual
    domain: Domain
    source: Source

    def __post_init__(self) -> None:
        """Raise ValueError, naming the rows, where the table cannot be read or falls."""
        check_rising("rows", self.rows, "weight_s", self.weight_s)

    def time(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> KernelTime:
        """Time of one product, seconds, in the shape m, n and k broadcast to; m = 0 costs nothing.

        m is rows of the activation (tokens), n outputs, k inputs; n and k are at least 1.
        """
        rows, outputs, inputs = np.broadcast_arrays(
            *(np.asarray(size, dtype=np.float64) for size in (m, n, k))
        )
        present = rows > 0
        weights = outputs * inputs
        each_s = self.weight_time_s(np.where(present, rows, 1.0))
        seconds = np.where(present, self.launch_s + weights * each_s, 0.0)
        return tabulated_product(
            seconds,
            rows,
            weights,
            launch_s=self.launch_s,
            flop_per_s=self.flop_per_s,
            weight_s=self.weight_element_bytes / self.memory_bytes_per_s,
        )

    def weight_time_s(self, m: FloatArray) -> FloatArray:
        """Seconds that m rows take at one weight."""
        return in_proportion_above(m, self.rows, self.weight_s)

    def outside(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> list[str]:
        """What about these sizes lies outside the fitted range; one sentence each."""
        return outside_domain(self.domain, {"m": m, "n": n, "k": k})
