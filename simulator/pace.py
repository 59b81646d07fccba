"""Pace: how many tokens a request emits per step, from a constant or from measured acceptance."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simulator.schedule import IntArray
from traces.acceptance import AcceptanceModel


class Pace(Protocol):
    """Yields the tokens emitted at each step until *n_tokens* are out."""

    @property
    def mean_tokens(self) -> float:
        """Mean tokens per step."""

    @property
    def replay(self) -> str:
        """How faithful the replay is: constant, resampled."""

    def emitted(self, n_tokens: int, key: tuple[int, ...]) -> IntArray:
        """Tokens at each step, their sum exactly *n_tokens*; *key* seeds the draws."""


def _cut(emitted: IntArray, n_tokens: int) -> IntArray:
    """The steps of *emitted* until *n_tokens* are out, the last one cut to fit."""
    total = np.cumsum(emitted)
    n_steps = int(np.searchsorted(total, n_tokens)) + 1
    kept = emitted[:n_steps].copy()
    kept[-1] -= total[n_steps - 1] - n_tokens
    return kept


@dataclass(frozen=True)
class ConstantPace:
    """*mean_tokens* at every step, as the papers' throughput tests force it.

    A fraction is spread evenly: after s steps floor(s x mean) tokens are out, so the request
    takes ceil(n / mean) steps (Uno, section 5: "ceil(n/TPF) decoding steps").
    """

    mean_tokens: float
    replay: str = "constant"

    def emitted(self, n_tokens: int, key: tuple[int, ...]) -> IntArray:  # noqa: ARG002 (no draws)
        """Tokens at each step; their sum is *n_tokens*."""
        if n_tokens <= 0:
            return np.zeros(0, dtype=np.int64)
        # The slack keeps n / mean from rounding up when it is whole.
        n_steps = math.ceil(n_tokens / self.mean_tokens - 1e-9)
        out = np.floor(np.arange(1, n_steps + 1) * self.mean_tokens + 1e-9).astype(np.int64)
        out[-1] = n_tokens
        emitted: IntArray = np.diff(np.minimum(out, n_tokens), prepend=0)
        return emitted


@dataclass(frozen=True)
class AcceptancePace:
    """Draws every step from an acceptance model: the same request draws the same, whatever else."""

    model: AcceptanceModel
    block: int
    tree_size: int | None = None
    replay: str = "resampled"

    @property
    def mean_tokens(self) -> float:
        """Mean tokens per step of the acceptance model."""
        return self.model.tokens_per_step(self.block, self.tree_size)

    def emitted(self, n_tokens: int, key: tuple[int, ...]) -> IntArray:
        """Tokens at each step; their sum is *n_tokens*."""
        if n_tokens <= 0:
            return np.zeros(0, dtype=np.int64)
        # A step emits at least the guaranteed tokens, so this many steps always suffice.
        n_steps = math.ceil(n_tokens / self.model.guaranteed_tokens)
        generator = np.random.default_rng(key)
        drawn = self.model.draw(self.block, n_steps, generator, tree_size=self.tree_size)
        return _cut(np.asarray(drawn, dtype=np.int64), n_tokens)
