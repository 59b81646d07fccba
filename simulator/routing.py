"""Routing: how many experts a batch of tokens hits, an explicit input of every MoE cost."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, Strict

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Routing:
    """How tokens spread over experts.

    uniform: every token picks its experts independently and evenly, an upper bound for real
    routers. zipf: expert popularity falls as rank^-exponent. balanced: experts are visited in
    turn, as the measured kernels were driven. fixed: *active_experts* whatever the batch.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["uniform", "zipf", "balanced", "fixed"] = "uniform"
    exponent: Annotated[float, Strict(), Field(ge=0, le=4, allow_inf_nan=False)] = 1.0
    active_experts: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = None

    def distinct(self, experts: int, top_k: int, tokens: FloatArray) -> FloatArray:
        """Expected distinct experts per layer that *tokens* hit; same shape as *tokens*.

        Uniform: E (1 - (1 - k/E)^T). Zipf: the sum over experts of 1 - (1 - p_i)^T, where p_i is
        the chance that a token picks expert i, capped at 1.
        """
        if self.kind == "fixed":
            given = min(self.active_experts or experts, experts)
            return np.where(tokens > 0, np.minimum(given, top_k * tokens), 0.0)
        if self.kind == "balanced":
            return np.minimum(experts, top_k * tokens)
        if self.kind == "uniform":
            return experts * (1 - (1 - top_k / experts) ** tokens)
        chance = _popularity(experts, top_k, self.exponent)
        miss = (1 - chance)[:, None] ** np.ravel(tokens)[None, :]
        hit: FloatArray = (1 - miss).sum(axis=0)
        return hit.reshape(np.shape(tokens))


def _popularity(experts: int, top_k: int, exponent: float) -> FloatArray:
    """Chance that a token picks each expert: Zipf weights summing to *top_k*, none above 1."""
    weight = np.arange(1, experts + 1, dtype=float) ** -exponent
    chance = np.zeros(experts)
    free = np.ones(experts, dtype=bool)
    while True:
        share = weight * free
        chance = np.where(free, share / share.sum() * (top_k - (~free).sum()), 1.0)
        over = free & (chance > 1)
        if not over.any():
            return chance
        free &= ~over
