"""A model whose outputs predict the next place, asked as if they predicted their own."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from kernels_ref.decoding.query import Cache, Model, ModelFacts, Prediction, Query
from kernels_ref.outside.checkpoint import model_of
from kernels_ref.outside.family import family_of
from kernels_ref.outside.shifted import Shifted
from tests.kernels_ref.outside.asked import block_query, by_blocks, differs_by
from tests.kernels_ref.outside.oracle import block_causal_logits
from tests.kernels_ref.outside.tiny import BLOCK, MASK

Made = tuple[Path, Any]


class Echo:
    """Says of every place the token that it was asked with, and remembers what it was asked."""

    facts = ModelFacts(9, (1,), 4, 32, 10)

    def __init__(self) -> None:
        """Nothing asked yet."""
        self.asked: list[Query] = []

    def new_cache(self, rows: int, capacity_tokens: int) -> Cache:
        """Itself: it remembers no row."""
        assert rows * capacity_tokens > 0
        return self

    def keep(self, rows: list[int]) -> Cache:
        """All rows are alike."""
        assert rows
        return self

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The query's own tokens, certain of each."""
        assert cache is self
        self.asked += [query for query in queries if query is not None]
        return [None if query is None else self._echoed(query) for query in queries]

    def _echoed(self, query: Query) -> Prediction:
        tokens = query.tokens[query.asked :]
        logits = torch.zeros(len(tokens), self.facts.vocab)
        logits[torch.arange(len(tokens)), torch.from_numpy(tokens)] = 5.0
        return Prediction(query.left + query.asked, tokens, np.ones(len(tokens)), logits)


def shifted(made: Made) -> Model:
    """The checkpoint read as one whose outputs are shifted."""
    folder, _ = made
    family = dataclasses.replace(family_of(folder), logit_shift=True)
    return model_of(folder, family, dtype=torch.float64).model


def test_predictions_are_the_outputs_one_place_before(sdar: Made) -> None:
    """Over cached blocks, ragged rows together: the library's logits, moved by one."""
    model = shifted(sdar)
    numbers = np.random.default_rng(3)
    rows = [numbers.integers(0, MASK, length) for length in (12, 7, 15)]

    for row, found in zip(rows, by_blocks(model, rows, BLOCK), strict=True):
        expected = block_causal_logits(sdar[1], row, BLOCK)
        assert differs_by(found[1:], expected[:-1], MASK) < 1e-10
        assert differs_by(found[:1], expected[:1], MASK) < 1e-10


def test_rows_that_leave_take_their_neighbours_with_them(sdar: Made) -> None:
    """A row kept alone goes on from its own last token, not from that of the row before it."""
    model = shifted(sdar)
    numbers = np.random.default_rng(4)
    rows = [numbers.integers(0, MASK, 8) for _ in range(2)]
    cache = model.new_cache(2, 8)
    model.forward([block_query(row, 0, 4, block=BLOCK) for row in rows], cache)
    found = model.forward([block_query(rows[1], 4, 8, block=BLOCK)], cache.keep([1]))[0]

    expected = block_causal_logits(sdar[1], rows[1], BLOCK)[3:7]
    assert found is not None
    assert differs_by(found.logits, expected, MASK) < 1e-10


@pytest.mark.parametrize(
    ("left", "asked", "expected"),
    [
        (0, 0, [5, 5, 6, 7, 8]),
        (0, 1, [5, 6, 7, 8]),
        (0, 3, [7, 8]),
        (0, 5, []),
        (2, 0, [6, 7, 8]),
        (2, 2, [8]),
        (2, 3, []),
    ],
)
def test_what_is_asked_is_what_is_answered(left: int, asked: int, expected: list[int]) -> None:
    """Only the places from *asked* on come back, each with the token that stands before it."""
    model = Shifted(Echo())
    cache = model.new_cache(1, 8)
    tokens = np.array([5, 6, 7, 8, 4])
    model.forward([block_query(tokens, 0, 5, block=8)], cache)
    said = model.forward([block_query(tokens, left, 5, block=8, asked=asked)], cache)[0]

    assert said is not None
    assert said.token.tolist() == said.logits.argmax(dim=-1).tolist() == expected
    assert said.left == left + asked
    assert len(said.probability) == len(expected)


def test_the_neighbour_is_asked_as_it_was_last() -> None:
    """Its token, what it sees and how soft it was are those of its own last forward."""
    inner = Echo()
    model = Shifted(inner)
    cache = model.new_cache(1, 8)
    soft = Query(
        "denoise", 0, np.array([3, 4]), np.array([2, 2]), 2, hardness=np.array([1.0, 0.25])
    )
    model.forward([soft], cache)
    model.forward([Query("denoise", 2, np.array([7, 9]), np.array([4, 4]), 4)], cache)
    asked = inner.asked[-1]

    assert asked.left == 1
    assert asked.tokens.tolist() == [4, 7, 9]
    assert asked.horizon.tolist() == [2, 4, 4]
    assert asked.padded == 5
    assert asked.hardness is not None
    assert asked.hardness.tolist() == [0.25, 1.0, 1.0]


def test_a_cache_of_another_model_is_refused() -> None:
    """A cache that remembers no tokens cannot say what the neighbour was."""
    with pytest.raises(TypeError, match="a ShiftedCache, got Echo"):
        Shifted(Echo()).forward([], Echo())
