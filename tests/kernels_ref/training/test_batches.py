"""Batches of solved problems."""

from itertools import islice

import pytest

pytest.importorskip("torch")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.task.problems import problems
from kernels_ref.task.vocabulary import END, WORDS
from kernels_ref.training.batches import sequences
from kernels_ref.training.language import CONTEXT_TOKENS


@given(rows=st.integers(1, 6), block=st.sampled_from([4, 16, 32]), seed=st.integers(0, 2**62))
@settings(max_examples=30)
def test_a_row_is_a_training_problem_and_end_tokens(rows: int, block: int, seed: int) -> None:
    """The seed's problems in order, whole blocks, one block or more of end tokens behind each."""
    found = sequences(rows, block, seed)
    length = found.tokens.shape[1]
    assert length % block == 0
    for row, problem in enumerate(islice(problems("train", seed), rows)):
        solved = [*problem.prompt, *problem.solution]
        assert found.tokens[row].tolist() == solved + [END] * (length - len(solved))
        assert length - len(solved) >= block
        assert found.prompt_tokens[row] == len(problem.prompt)
        assert found.is_answer[row].tolist() == [i >= len(problem.prompt) for i in range(length)]


@given(seed=st.integers(0, 2**62))
@settings(max_examples=30)
def test_weights_by_what_a_token_is(seed: int) -> None:
    """None on prompts, two on numbers, a fifth behind the first end token, one on all else."""
    found = sequences(2, 16, seed)
    for row in range(2):
        behind = found.tokens[row].tolist().index(END) + 1
        for place, token in enumerate(found.tokens[row]):
            if place < found.prompt_tokens[row]:
                expected = 0.0
            elif place >= behind:
                expected = 0.2
            else:
                expected = 2.0 if WORDS[token].isdigit() else 1.0
            assert found.weights[row, place] == expected


def test_batches_fit_the_context() -> None:
    """Of 2000 problems the longest, with its block of end tokens, is within the context."""
    lengths = [sequences(100, 16, seed).tokens.shape[1] for seed in range(20)]
    assert np.max(lengths) <= CONTEXT_TOKENS
