"""The dense matrix product y[m,n] = x[m,k] W[n,k]^T."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain, p_norm
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import AtLeastOne, Domain, NonNegative, Positive


@dataclass(frozen=True)
class GemmCurve:
    """t = (launch^p + (bytes/bandwidth, flop/rate)_q^p)^(1/p), with (a, b)_q the q-norm.

    launch = launch_s + launch_per_k_s * min(k, launch_k_limit): the pipeline along k has to fill.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["gemm"]
    launch_s: Positive
    launch_per_k_s: NonNegative
    launch_k_limit: Positive
    launch_power: AtLeastOne
    roof_power: AtLeastOne
    memory_bytes_per_s: Positive
    flop_per_s: Positive
    weight_element_bytes: Positive
    activation_element_bytes: Positive
    residual: Residual
    domain: Domain
    source: Source

    def time(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> KernelTime:
        """Time of one product, seconds, in the shape m, n and k broadcast to; m = 0 costs nothing.

        m is rows of the activation (tokens), n outputs, k inputs; n and k are at least 1.
        """
        rows, outputs, inputs = (np.asarray(size, dtype=np.float64) for size in (m, n, k))
        present = np.where(rows > 0, 1.0, 0.0)
        weights = self.weight_element_bytes * outputs * inputs
        activations = self.activation_element_bytes * rows * (outputs + inputs)
        memory = present * (weights + activations) / self.memory_bytes_per_s
        compute = present * (2.0 * rows * outputs * inputs / self.flop_per_s)
        prologue = self.launch_per_k_s * np.minimum(inputs, self.launch_k_limit)
        launch = np.broadcast_to(present * (self.launch_s + prologue), memory.shape)
        roof = p_norm(memory, compute, power=self.roof_power)
        return KernelTime(
            seconds=p_norm(launch, roof, power=self.launch_power),
            compute_s=compute,
            memory_s=memory,
            link_s=np.zeros(memory.shape),
            launch_s=launch,
        )

    def outside(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> list[str]:
        """What about these sizes lies outside the fitted range; one sentence each."""
        return outside_domain(self.domain, {"m": m, "n": n, "k": k})
