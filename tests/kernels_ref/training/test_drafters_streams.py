"""Who sees whom while drafters train, against the same counted out place by place."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.kernels.visibility import dense
from kernels_ref.task.vocabulary import END, MASK, WORDS
from kernels_ref.training import eagle3
from kernels_ref.training.batches import sequences
from kernels_ref.training.draft_streams import (
    DraftBlocks,
    among_drafts,
    behind_clean,
    clean_and_drafts,
    draft_blocks,
)
from kernels_ref.training.eagle3 import frequent_tokens, seen_by_pass
from kernels_ref.training.streams import given_pairs


@st.composite
def drawn_blocks(draw: st.DrawFn) -> tuple[DraftBlocks, int, int]:
    """Blocks of rows, the first place of drafts, and the size that was asked for."""
    first, drafts = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    size, rows = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    length = first + drafts
    made = draft_blocks(rows, length, first=first, block_tokens=size, generator=generator)
    return made, first, size


@given(drawn=drawn_blocks())
@settings(max_examples=80, deadline=None)
def test_blocks_tile_the_answer(drawn: tuple[DraftBlocks, int, int]) -> None:
    """One behind the other from the first draft on, all of one size but those at the ends."""
    blocks, first, size = drawn
    for numbers, withins in zip(blocks.number.tolist(), blocks.within.tolist(), strict=True):
        assert numbers[:first] == [-1] * first
        assert withins[:first] == [0] * first
        lengths = [numbers.count(number) for number in range(max(numbers) + 1)]
        told = [number for number, count in enumerate(lengths) for _ in range(count)]
        assert numbers[first:] == told
        assert withins[first:] == [place for count in lengths for place in range(count)]
        assert all(count == size for count in lengths[1:-1])
        assert 1 <= lengths[0] <= size
        assert 1 <= lengths[-1] <= size


def test_drafts_begin_anywhere() -> None:
    """A first block is cut to any length, each about as often."""
    generator = np.random.default_rng(0)
    blocks = draft_blocks(900, 20, first=4, block_tokens=6, generator=generator)
    lengths = (blocks.number == 0).sum(axis=1)
    counts = np.bincount(lengths, minlength=7)
    assert counts[0] == 0
    # Six lengths, 150 times each but for chance: seven deviations of 11.2.
    assert (np.abs(counts[1:] - 150) < 80).all()


@given(drawn=drawn_blocks(), causal=st.booleans())
@settings(max_examples=60, deadline=None)
def test_drafts_see_what_is_clean_before_their_block_and_their_block(
    drawn: tuple[DraftBlocks, int, int], *, causal: bool
) -> None:
    """Clean tokens see those up to themselves and no draft; drafts no clean one of their block."""
    blocks, first, _ = drawn
    rows, length = blocks.number.shape
    drafts = length - first
    whole = clean_and_drafts(blocks, first, causal=causal)
    assert whole.shape == (rows, length + drafts, length + drafts)
    assert np.array_equal(whole[:, length:, :length], behind_clean(blocks, first))
    assert np.array_equal(whole[:, length:, length:], among_drafts(blocks, first, causal=causal))
    for row, query, key in np.ndindex(whole.shape):
        starts = block_starts(blocks, row)
        if query < length:
            expected = key <= query
        elif key < length:
            expected = key < starts[first + query - length]
        else:
            place, other = first + query - length, first + key - length
            expected = starts[place] == starts[other] and (not causal or other <= place)
        assert whole[row, query, key] == expected


def block_starts(blocks: DraftBlocks, row: int) -> dict[int, int]:
    """First place of the block of each place."""
    starts: dict[int, int] = {}
    first_of: dict[int, int] = {}
    for place, number in enumerate(blocks.number[row].tolist()):
        starts[place] = first_of.setdefault(number, place)
    return starts


@given(drawn=drawn_blocks(), decay=st.floats(0.1, 1.0))
@settings(max_examples=30, deadline=None)
def test_weights_fall_along_a_block(drawn: tuple[DraftBlocks, int, int], decay: float) -> None:
    """By one factor a place, from the whole weight at its first one."""
    blocks, first, _ = drawn
    weights = np.random.default_rng(1).random(blocks.number.shape)
    found = blocks.weighted(weights, decay)
    for row, place in np.ndindex(found.shape):
        start = block_starts(blocks, row)[place] if place >= first else place
        expected = weights[row, place] * decay ** (place - start)
        assert found[row, place] == pytest.approx(expected)


def test_features_lie_before_the_block() -> None:
    """Keys are the features of all places, then the block's own; queries are the last ones."""
    pairs = np.random.default_rng(0).random((2, 3, 8)) < 0.5
    seen = given_pairs(pairs)
    assert seen.prefix_tokens.tolist() == [5, 5]
    assert seen.query_tokens.tolist() == [3, 3]
    assert np.array_equal(dense(seen, 2, 3, 8).numpy(), pairs)


@given(places=st.integers(2, 9), first=st.integers(1, 8), number=st.integers(0, 5), rows=st.just(2))
@settings(max_examples=60, deadline=None)
def test_a_pass_sees_its_own_line(places: int, first: int, number: int, rows: int) -> None:
    """Place i of pass k sees the target's features up to place i - k, and its own line behind.

    A line goes back a place and a pass at a time, as every state was made of the one before it.
    """
    first = min(first, places - 1)
    seen = seen_by_pass(rows, places, first, number)
    queries = range(first if number else 0, places)
    # Keys of pass 0 at all places, then of passes 1, 2, .. at those from the first draft on.
    keys = [(0, place) for place in range(places)]
    keys += [(later, place) for later in range(1, number + 1) for place in range(first, places)]
    assert seen.query_tokens.tolist() == [len(queries)] * rows
    assert seen.prefix_tokens.tolist() == [len(keys) - len(queries)] * rows
    found = dense(seen, rows, len(queries), len(keys))
    assert torch.equal(found[0], found[1])
    for row, place in enumerate(queries):
        expected = line_of(number, place)
        assert {
            key for key, is_seen in zip(keys, found[0, row].tolist(), strict=True) if is_seen
        } == {key for key in expected if key in keys}


def line_of(number: int, place: int) -> set[tuple[int, int]]:
    """What a state of pass *number* is made of, by pass and place: itself, and back to pass 0."""
    line = set()
    while number > 0:
        line.add((number, place))
        number, place = number - 1, place - 1
    return line | {(0, before) for before in range(place + 1)}


@pytest.mark.parametrize("phrasing", [None, 0, 2])
def test_the_most_frequent_tokens(phrasing: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in solutions one by one, end tokens too; rising, and no more than there are."""
    monkeypatch.setattr(eagle3, "COUNTED_PROBLEMS", 60)
    drawn = sequences(60, 1, 5, phrasing=phrasing)
    counts = dict.fromkeys(range(len(WORDS)), 0)
    for row, prompt in enumerate(drawn.prompt_tokens):
        for token in drawn.tokens[row, prompt:].tolist():
            counts[token] += 1
    assert counts[MASK] == 0
    ranked = sorted((t for t in counts if counts[t]), key=lambda token: (-counts[token], token))
    for count in (1, 7, 20, len(WORDS), 10_000):
        found = frequent_tokens(count, phrasing, 5)
        assert found.dtype == torch.int32
        assert found.tolist() == sorted(ranked[:count])
    assert END in frequent_tokens(1, phrasing, 5)
