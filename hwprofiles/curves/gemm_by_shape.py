"""The dense product where the time of each matrix that was measured is tabulated by rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field

from hwprofiles.curves.smooth import outside_domain
from hwprofiles.curves.tables import check_rising, in_proportion_above, tabulated_product
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Domain, FloatArray, Positive


@dataclass(frozen=True)
class MatrixTable:
    """Seconds of a product with one matrix [n, k] by rows of the activation, both rising."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    n: Count
    k: Count
    rows: list[Positive]
    seconds: list[Positive]

    def __post_init__(self) -> None:
        """Raise ValueError, naming the rows, where the table cannot be read or falls."""
        check_rising("rows", self.rows, "seconds", self.seconds)

    @property
    def weights(self) -> int:
        """Entries of the matrix."""
        return self.n * self.k

    def lookup(self, rows: FloatArray) -> FloatArray:
        """Linear in the logarithms; flat below, in proportion to the rows above."""
        return in_proportion_above(rows, self.rows, self.seconds)


@dataclass(frozen=True)
class GemmByShapeCurve:
    """t = table of the matrix (m): what a model's few matrices take, and nothing in between.

    Small products reach a rate that depends on the matrix's sides and not on its entries alone, so
    for a machine that runs one model each matrix has a table. Another matrix takes what lies
    between the measured ones with fewer and more entries, at least as long as any with fewer.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["gemm-by-shape"]
    matrices: Annotated[list[MatrixTable], Field(min_length=1)]
    memory_bytes_per_s: Positive
    """The fastest that weights were read."""
    flop_per_s: Positive
    """The fastest that was calculated."""
    weight_element_bytes: Positive
    residual: Residual
    domain: Domain
    source: Source

    def time(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> KernelTime:
        """Time of one product, seconds, in the shape m, n and k broadcast to; m = 0 costs nothing.

        m is rows of the activation (tokens), n outputs, k inputs; n and k are at least 1.
        """
        rows, outputs, inputs = np.broadcast_arrays(
            *(np.asarray(size, dtype=np.float64) for size in (m, n, k))
        )
        present = rows > 0
        asked = np.maximum(rows, 1.0)
        seconds = np.zeros(rows.shape)
        pairs = np.stack([outputs, inputs], axis=-1).reshape(-1, 2)
        for columns, width in np.unique(pairs, axis=0).tolist():
            mine = (outputs == columns) & (inputs == width)
            seconds[mine] = self._matrix_s(columns, width, asked[mine])
        seconds = np.where(present, seconds, 0.0)
        return tabulated_product(
            seconds,
            rows,
            outputs * inputs,
            launch_s=min(min(each.seconds) for each in self.matrices),
            flop_per_s=self.flop_per_s,
            weight_s=self.weight_element_bytes / self.memory_bytes_per_s,
        )

    @cached_property
    def _by_weights(self) -> list[MatrixTable]:
        return sorted(self.matrices, key=lambda each: each.weights)

    def _matrix_s(self, n: float, k: float, m: FloatArray) -> FloatArray:
        """Seconds of *m* rows at one matrix, [m]."""
        for each in self.matrices:
            if (each.n, each.k) == (n, k):
                return each.lookup(m)
        known = np.log([float(each.weights) for each in self._by_weights])
        times = np.maximum.accumulate([each.lookup(m) for each in self._by_weights], axis=0)
        between = np.array([np.exp(np.interp(np.log(n * k), known, t)) for t in np.log(times).T])
        beyond: FloatArray = between * max(1.0, n * k / self._by_weights[-1].weights)
        return beyond

    def outside(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> list[str]:
        """What about these sizes lies outside the measured; one sentence each."""
        return outside_domain(self.domain, {"m": m, "n": n, "k": k}) + list(self._unknown(m, n, k))

    def _unknown(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Iterator[str]:
        sizes = np.broadcast_arrays(*(np.asarray(size, dtype=np.float64) for size in (m, n, k)))
        rows, outputs, inputs = (size.ravel().tolist() for size in sizes)
        asked = {(b, c) for a, b, c in zip(rows, outputs, inputs, strict=True) if a > 0}
        for columns, width in sorted(asked - {(each.n, each.k) for each in self.matrices}):
            yield f"a matrix of {columns:g} x {width:g} was not measured"
