"""Uniform noise: tokens that stand where none is known yet, in models without a mask."""

import numpy as np

from kernels_ref.decoding.query import IntArray, ModelFacts


def uniform_noise(draws: np.random.Generator, facts: ModelFacts, count: int) -> IntArray:
    """*count* tokens, each uniform over all but the mask."""
    drawn = draws.integers(facts.vocab - 1, size=count)
    return drawn + (drawn >= facts.mask_token)
