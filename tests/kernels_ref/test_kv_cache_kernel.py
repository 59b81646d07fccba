"""Scatter, gather and move against their naive twins, overlapping ranges included."""

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels_ref.kernels.kv_cache import (
    gather_window,
    move_kv,
    naive_gather_window,
    naive_move_kv,
    naive_scatter_kv,
    scatter_by_index,
    scatter_kv,
)

ROWS, CAPACITY, KV_HEADS, HEAD_DIM = 3, 12, 2, 4


def entries(places: int, start: int = 0) -> torch.Tensor:
    """A tensor [rows, places, kv heads, head size] in which no two numbers are equal."""
    size = ROWS * places * KV_HEADS * HEAD_DIM
    numbers = torch.arange(start, start + size, dtype=torch.float32)
    return numbers.reshape(ROWS, places, KV_HEADS, HEAD_DIM)


@pytest.mark.parametrize("scatter", [scatter_kv, scatter_by_index])
@given(queries=st.integers(1, CAPACITY), data=st.data())
def test_scatter_is_its_naive_twin(
    scatter: Callable[..., None], queries: int, data: st.DataObject
) -> None:
    """Each row's entries land at its own offset, and nothing else changes."""
    tokens = [data.draw(st.integers(0, queries)) for _ in range(ROWS)]
    offsets = [data.draw(st.integers(0, CAPACITY - count)) for count in tokens]
    cache, new = entries(CAPACITY), -1 - entries(queries)
    expected = naive_scatter_kv(cache, new, torch.tensor(offsets), torch.tensor(tokens))
    scatter(cache, new, torch.tensor(offsets), torch.tensor(tokens))

    assert torch.equal(cache, expected)


def test_scatter_casts_to_the_dtype_of_the_cache() -> None:
    """A bf16 cache takes float32 entries, rounded."""
    cache = torch.zeros(1, 4, 1, 1, dtype=torch.bfloat16)
    scatter_kv(cache, torch.full((1, 1, 1, 1), 1.01), torch.tensor([2]), torch.tensor([1]))

    assert cache.flatten().tolist() == [0, 0, float(torch.tensor(1.01).bfloat16()), 0]


@given(max_width=st.integers(1, CAPACITY), data=st.data())
def test_gather_is_its_naive_twin(max_width: int, data: st.DataObject) -> None:
    """A row's window starts at its own left edge; past its width or the end there are zeros."""
    left = torch.tensor([data.draw(st.integers(0, CAPACITY)) for _ in range(ROWS)])
    width = torch.tensor([data.draw(st.integers(0, max_width)) for _ in range(ROWS)])
    tokens = 1 + torch.arange(ROWS * CAPACITY).reshape(ROWS, CAPACITY)
    for values in (tokens, entries(CAPACITY, start=1)):
        found = gather_window(values, left, width, max_width)
        assert found.dtype == values.dtype
        assert torch.equal(found, naive_gather_window(values, left, width, max_width))


def test_what_was_scattered_is_gathered() -> None:
    """Equation 4 finds what equation 6 put there."""
    cache, new = torch.zeros(ROWS, CAPACITY, KV_HEADS, HEAD_DIM), entries(4, start=1)
    offsets, tokens = torch.tensor([0, 3, 8]), torch.full((ROWS,), 4)
    scatter_kv(cache, new, offsets, tokens)

    assert torch.equal(gather_window(cache, offsets, tokens, 4), new)


@given(longest=st.integers(1, CAPACITY), data=st.data())
def test_move_is_its_naive_twin(longest: int, data: st.DataObject) -> None:
    """Entries move as if all were read first, although old and new places overlap."""
    counts = [data.draw(st.integers(0, longest)) for _ in range(ROWS)]
    targets = [data.draw(st.integers(0, CAPACITY - count)) for count in counts]
    place = st.integers(0, CAPACITY - 1)
    path = st.lists(place, min_size=longest, max_size=longest)
    sources = torch.tensor([data.draw(path) for _ in range(ROWS)])
    target, tokens = torch.tensor(targets), torch.tensor(counts)
    cache = entries(CAPACITY)
    expected = naive_move_kv(cache, sources, target, tokens)
    move_kv(cache, sources, target, tokens)

    assert torch.equal(cache, expected)


def test_accepted_path_becomes_contiguous() -> None:
    """After a prefix of 4, nodes 0, 2 and 5 of a tree end up in places 4, 5 and 6."""
    cache = torch.arange(12).reshape(1, 12, 1, 1)
    move_kv(cache, torch.tensor([[4, 6, 9]]), torch.tensor([4]), torch.tensor([3]))

    assert cache.flatten().tolist() == [0, 1, 2, 3, 4, 6, 9, 7, 8, 9, 10, 11]


def test_move_to_the_right_reads_before_it_writes() -> None:
    """Shifting a run by one does not smear its first entry over it."""
    cache = torch.arange(6).reshape(1, 6, 1, 1)
    move_kv(cache, torch.tensor([[0, 1, 2, 3]]), torch.tensor([1]), torch.tensor([4]))

    assert cache.flatten().tolist() == [0, 0, 1, 2, 3, 5]


def test_bad_places_are_refused() -> None:
    """What would fall outside the cache is told with its value, and nothing is written."""
    cache, one = entries(CAPACITY), torch.ones(ROWS, dtype=torch.int64)
    before = cache.clone()
    with pytest.raises(ValueError, match="4 tokens at 9 do not fit a capacity of 12"):
        scatter_kv(cache, entries(4), 9 * one, 4 * one)
    with pytest.raises(ValueError, match="1 tokens at -1"):
        scatter_kv(cache, entries(4), -one, one)
    with pytest.raises(ValueError, match="13 queries exceed a capacity of 12"):
        scatter_kv(cache, entries(13), 0 * one, one)
    with pytest.raises(ValueError, match=r"new entries \[3, 4, 1, 4\]"):
        scatter_kv(cache, entries(4)[:, :, :1], one, one)
    with pytest.raises(ValueError, match="source 12 lies outside"):
        move_kv(cache, 12 * one[:, None], one, one)

    assert torch.equal(cache, before)
