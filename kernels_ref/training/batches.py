"""Batches of solved problems: token sequences of one length, filled up with end tokens."""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from kernels_ref.task.problems import problems
from kernels_ref.task.vocabulary import END, FIRST_NUMBER, LARGEST_NUMBER

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

NUMBER_WEIGHT = 2.0
FILL_WEIGHT = 0.2
"""Of end tokens behind the first one: there are many and they are easy."""


@dataclass(frozen=True)
class Sequences:
    """Solved problems of one step."""

    tokens: IntArray
    """[rows, length], a multiple of the block."""
    prompt_tokens: IntArray
    """[rows]"""
    weights: FloatArray
    """[rows, length], of the loss; zero on the prompt."""

    @property
    def is_answer(self) -> BoolArray:
        """Positions behind the prompt, [rows, length]."""
        return np.arange(self.tokens.shape[1]) >= self.prompt_tokens[:, None]


def sequences(rows: int, block_tokens: int, seed: int, *, phrasing: int | None = None) -> Sequences:
    """*rows* training problems drawn by *seed*, at least one block of end tokens behind each.

    Their solutions are as drawn, or every sentence in the one *phrasing*.
    """
    drawn = list(islice(problems("train", seed), rows))
    if phrasing is not None:
        drawn = [replace(each, phrasings=(phrasing,) * len(each.phrasings)) for each in drawn]
    prompts = np.array([len(problem.prompt) for problem in drawn])
    ends = np.array([len(p.prompt) + len(p.solution) for p in drawn])
    length = (-(-int(ends.max()) // block_tokens) + 1) * block_tokens
    tokens = np.full((rows, length), END)
    for row, problem in enumerate(drawn):
        tokens[row, : ends[row]] = problem.prompt + problem.solution
    positions = np.arange(length)
    is_number = (tokens >= FIRST_NUMBER) & (tokens <= FIRST_NUMBER + LARGEST_NUMBER)
    weights = np.where(is_number, NUMBER_WEIGHT, 1.0)
    weights[positions >= ends[:, None]] = FILL_WEIGHT
    weights[positions < prompts[:, None]] = 0.0
    return Sequences(tokens, prompts, weights)
