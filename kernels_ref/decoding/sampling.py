"""Sampling: the law that tokens are drawn by, the same for drafter and verifier."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import numpy as np
import torch
from pydantic import ConfigDict, Field, Strict

from kernels_ref.decoding.query import FloatArray, ModelFacts
from kernels_ref.kernels.sampling import sampling_probabilities

Temperature = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
LEAST_TEMPERATURE: Final = 1e-6
"""Far below it, logits over temperature are no numbers any more."""
Nucleus = Annotated[float, Strict(), Field(gt=0, le=1)]
Candidates = Annotated[int, Strict(), Field(ge=1)]


class BrokenModelError(ValueError):
    """A model whose answers no token can be drawn from."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Temperature, then top-k, then top-p; greedy as published at temperature 0."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    temperature: Temperature = 0.0
    top_p: Nucleus = 1.0
    sample_top_k: Candidates | None = None
    """Tokens that may be drawn at a place; not the *top_k* candidates of a tree."""

    def __post_init__(self) -> None:
        """Refuse a temperature that logits cannot be divided by."""
        if 0 < self.temperature < LEAST_TEMPERATURE:
            rule = f"temperature is 0 or at least {LEAST_TEMPERATURE:g}, got {self.temperature:g}"
            raise ValueError(rule)

    def check(self, facts: ModelFacts) -> None:
        """Raise ValueError for what a model rules out."""
        if self.sample_top_k is not None:
            check_candidates("sample_top_k", self.sample_top_k, facts)

    def probabilities(self, logits: torch.Tensor) -> FloatArray:
        """The law of each row of *logits* [n, vocab], float64; one token's alone if greedy.

        Raises BrokenModelError for logits that are no law, ValueError for a setting that leaves no
        token.
        """
        # The largest of a row is no number where one of them is none, or all are ruled out.
        if not bool(logits.amax(dim=-1).isfinite().all()):
            what = "the model gives logits that are no numbers; its weights or scales are broken"
            raise BrokenModelError(what)
        law = sampling_probabilities(
            logits.double(),
            temperature=self.temperature,
            top_k=self.sample_top_k,
            top_p=self.top_p,
        )
        return np.asarray(law.numpy())


def log_probabilities(logits: torch.Tensor) -> FloatArray:
    """Log-soft-max of each row of *logits* [n, vocab], float64, as nothing is cut off or cooled."""
    return np.asarray(logits.double().log_softmax(dim=-1).numpy())


def check_candidates(name: str, count: int, facts: ModelFacts) -> None:
    """Raise ValueError where *count* is more than there are tokens."""
    if count > facts.vocab:
        rule = f"{name} is at most the vocabulary, {facts.vocab} tokens, got {count}"
        raise ValueError(rule)
