"""A fused mixture-of-experts module: routing, permutation, two grouped products, combination."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain, p_norm
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import AtLeastOne, Domain, FloatArray, NonNegative, Positive

# Gate, up and down projection.
EXPERT_MATRICES = 3.0
# Rows travel in bf16 or wider whatever the weights are stored in.
ROW_ELEMENT_BYTES = 2.0

# One model, or an array of them that broadcasts with the tokens.
Size = float | FloatArray


@dataclass(frozen=True)
class GroupedMoeCurve:
    """t = launch + experts * expert_s + row bytes/row bandwidth + (weights/bandwidth, flop/rate)_p.

    A row is one token at one of its top_k experts; permuting and combining move `hidden` numbers
    for each. Every active expert also multiplies `padding_rows` rows that fill its last tile.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["grouped-moe"]
    launch_s: Positive
    expert_s: NonNegative
    row_bytes_per_s: Positive
    memory_bytes_per_s: Positive
    flop_per_s: Positive
    padding_rows: NonNegative
    roof_power: AtLeastOne
    weight_element_bytes: Positive
    residual: Residual
    domain: Domain
    source: Source

    def time(  # noqa: PLR0913 (a model's sizes)
        self,
        tokens: npt.ArrayLike,
        active_experts: npt.ArrayLike,
        *,
        hidden: Size,
        expert_ffn: Size,
        top_k: Size,
        experts: Size,
    ) -> KernelTime:
        """Time of one module, seconds, in the shape tokens and active_experts broadcast to.

        *active_experts* of *experts* have at least one token; *expert_ffn* is the width of one
        expert on this GPU. The router's own product and shared experts are not included.
        """
        count, active = np.broadcast_arrays(
            np.asarray(tokens, dtype=np.float64), np.asarray(active_experts, dtype=np.float64)
        )
        present = count > 0
        active = np.where(present, np.minimum(active, experts), 0.0)
        rows = count * top_k
        elements = EXPERT_MATRICES * hidden * expert_ffn
        weights = active * elements * self.weight_element_bytes / self.memory_bytes_per_s
        row_element = max(ROW_ELEMENT_BYTES, self.weight_element_bytes)
        moved = rows * hidden * row_element / self.row_bytes_per_s
        compute = 2.0 * elements * (rows + active * self.padding_rows) / self.flop_per_s
        launch = np.where(present, self.launch_s, 0.0) + active * self.expert_s
        return KernelTime(
            seconds=launch + moved + p_norm(weights, compute, power=self.roof_power),
            compute_s=compute,
            memory_s=weights + moved,
            link_s=np.zeros(count.shape),
            launch_s=launch,
        )

    def outside(  # noqa: PLR0913 (as time)
        self,
        tokens: npt.ArrayLike,
        active_experts: npt.ArrayLike,
        *,
        hidden: Size,
        expert_ffn: Size,
        top_k: Size,
        experts: Size,
    ) -> list[str]:
        """What about these sizes lies outside the fitted range; one sentence each."""
        values: dict[str, npt.ArrayLike] = {
            "tokens": tokens,
            "active_experts": active_experts,
            "hidden": hidden,
            "expert_ffn": expert_ffn,
            "top_k": top_k,
            "experts": experts,
        }
        return outside_domain(self.domain, values)
