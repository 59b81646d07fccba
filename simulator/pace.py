"""Pace: what a request's steps emit, from a constant, from measured acceptance or from a trace."""

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from simulator.request import Request
from simulator.schedule import IntArray
from traces.acceptance import AcceptanceModel

NINETY_PERCENT: Final = 1.645
"""90th percentile of the magnitude of a normal error, in standard deviations."""


@dataclass(frozen=True, eq=False)
class PacedSteps:
    """The decode steps of a request, as far as acceptance decides them; arrays are [steps]."""

    emitted_tokens: IntArray
    """They sum to what is left of the output behind the prefill's token."""
    drafts: IntArray | None = None
    """Drafts that are verified, where a trace says so; None for as many as the policy asks."""
    branches: IntArray | None = None
    """1 where the drafts are a tree with branches, else 0; None for whatever the policy drafts."""

    def verified_drafts(self, asked: int) -> IntArray | int:
        """Drafts that are verified at each step by a policy that asks for so many."""
        return asked if self.drafts is None else self.drafts

    @property
    def moved_tokens(self) -> IntArray:
        """Cached tokens of a tree that are moved: all that are kept, where it has branches."""
        return self.emitted_tokens * (1 if self.branches is None else self.branches)


class Pace(Protocol):
    """Says what each step of a request emits."""

    @property
    def mean_tokens(self) -> float:
        """Mean tokens per step."""

    @property
    def replay(self) -> str:
        """How faithful the replay is: constant, resampled, counterfactual, exact."""

    def steps(self, request: Request) -> PacedSteps:
        """The decode steps of *request* behind a prefill that emits one token.

        Draws are keyed by the request's seed and index, so nothing else changes them.
        """


def cut(emitted: IntArray, n_tokens: int) -> IntArray:
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

    def steps(self, request: Request) -> PacedSteps:
        """Evenly spread."""
        n_tokens = request.output_tokens - 1
        if n_tokens <= 0:
            return PacedSteps(np.zeros(0, dtype=np.int64))
        # The slack keeps n / mean from rounding up when it is whole.
        n_steps = math.ceil(n_tokens / self.mean_tokens - 1e-9)
        out = np.floor(np.arange(1, n_steps + 1) * self.mean_tokens + 1e-9).astype(np.int64)
        out[-1] = n_tokens
        return PacedSteps(np.diff(np.minimum(out, n_tokens), prepend=0))


@dataclass(frozen=True)
class AcceptancePace:
    """Draws every step from an acceptance model: the same request draws the same, whatever else."""

    model: AcceptanceModel
    block: int
    tree_size: int | None = None
    forgone_tokens: int = 0
    """Guaranteed tokens of the model's step that a step of the policy does not have."""
    replay: str = "resampled"

    @property
    def mean_tokens(self) -> float:
        """Mean tokens per step of the acceptance model."""
        return self.model.tokens_per_step(self.block, self.tree_size) - self.forgone_tokens

    def steps(self, request: Request) -> PacedSteps:
        """Independent draws, as many as the output takes."""
        n_tokens = request.output_tokens - 1
        if n_tokens <= 0:
            return PacedSteps(np.zeros(0, dtype=np.int64))
        # A step emits at least the guaranteed tokens, so this many steps always suffice.
        n_steps = math.ceil(n_tokens / (self.model.guaranteed_tokens - self.forgone_tokens))
        generator = np.random.default_rng(request.key)
        drawn = self.model.draw(self.block, n_steps, generator, tree_size=self.tree_size)
        return PacedSteps(cut(np.asarray(drawn - self.forgone_tokens, dtype=np.int64), n_tokens))
