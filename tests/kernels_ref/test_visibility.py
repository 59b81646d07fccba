"""Every mask against the sentence or equation that it comes from."""

import itertools
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels_ref.kernels.visibility import (
    Visibility,
    block_causal,
    causal,
    dense,
    prefix_full,
    sliding,
    tree,
    whole,
)

KEYS = 40
QUERIES = 8
# Per row: cached before, own queries.
batches = st.lists(
    st.tuples(st.integers(0, KEYS - QUERIES), st.integers(0, QUERIES)), min_size=1, max_size=4
)
RAGGED = [(0, 8), (5, 3), (32, 8), (17, 0), (7, 1)]


def lengths(batch: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Prefix and query tokens as tensors."""
    prefix, queries = zip(*batch, strict=True)
    return torch.tensor(prefix), torch.tensor(queries)


def seen(visibility: Visibility) -> torch.Tensor:
    """Every pair of the batch."""
    return dense(visibility, visibility.rows, QUERIES, KEYS)


def pairs(batch: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Every (row, query, key)."""
    return itertools.product(range(len(batch)), range(QUERIES), range(KEYS))


@given(batch=batches)
def test_whole_sees_all_that_is_in_the_cache(batch: list[tuple[int, int]]) -> None:
    """A query sees the prefix and its block, padding sees nothing and is not seen."""
    found = seen(whole(*lengths(batch)))
    for row, query, key in pairs(batch):
        prefix, queries = batch[row]
        assert found[row, query, key] == (query < queries and key < prefix + queries)


@given(batch=batches)
def test_causal_sees_up_to_itself(batch: list[tuple[int, int]]) -> None:
    """Query i sees exactly its prefix and its own block's first i + 1 tokens."""
    found = seen(causal(*lengths(batch)))
    for row, query in itertools.product(range(len(batch)), range(QUERIES)):
        prefix, queries = batch[row]
        expected = list(range(prefix + query + 1)) if query < queries else []
        assert found[row, query].nonzero().flatten().tolist() == expected


@pytest.mark.parametrize(("block", "slots"), [(1, 3), (2, 3), (4, 2), (8, 1)])
def test_block_causal_is_equation_five_of_flowblock(block: int, slots: int) -> None:
    """Equation 5, with the window at a shared tail, allows the same keys once put in place."""
    offsets = [0, block, 3 * block, 2 * block]
    width = block * slots
    capacity = 6 * block + width
    tail = capacity - width
    found = dense(
        block_causal(torch.tensor(offsets), torch.full((4,), width), block), 4, width, capacity
    )
    for row, offset in enumerate(offsets):
        for query in range(width):
            slot = query // block
            expected = set()
            for key in range(capacity):
                if key < offset:
                    expected.add(key)
                if tail <= key < tail + (slot + 1) * block:
                    expected.add(key - tail + offset)
            assert set(found[row, query].nonzero().flatten().tolist()) == expected


@given(batch=batches, block=st.integers(1, 9))
def test_block_causal_compares_absolute_blocks(batch: list[tuple[int, int]], block: int) -> None:
    """Windows may start inside a block and differ in width: blocks are absolute intervals."""
    found = seen(block_causal(*lengths(batch), block))
    for row, query, key in pairs(batch):
        prefix, queries = batch[row]
        edge = next(e for e in itertools.count(block, block) if e > prefix + query)
        expected = query < queries and key < min(edge, prefix + queries)
        assert found[row, query, key] == expected


def test_block_causal_reduces_to_its_neighbours() -> None:
    """Blocks of one token are causal; one block over everything is whole."""
    given_lengths = lengths(RAGGED)

    assert torch.equal(seen(block_causal(*given_lengths, 1)), seen(causal(*given_lengths)))
    assert torch.equal(seen(block_causal(*given_lengths, KEYS)), seen(whole(*given_lengths)))


def test_prompt_sees_all_of_itself_and_blocks_follow_it() -> None:
    """A prompt of 3 and blocks of 2 behind it, written out."""
    found = dense(prefix_full(torch.tensor([0]), torch.tensor([7]), torch.tensor([3]), 2), 1, 7, 7)

    assert found[0].sum(dim=1).tolist() == [3, 3, 3, 5, 5, 7, 7]
    assert torch.equal(found[0], torch.arange(7) < found[0].sum(dim=1, keepdim=True))


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parents of the nodes of a tree, the root's being itself; parents come first."""
    size = draw(st.integers(1, QUERIES))
    return [0] + [draw(st.integers(0, node - 1)) for node in range(1, size)]


def path(parents: list[int], node: int) -> set[int]:
    """The nodes from the root to *node*."""
    return {0} if node == 0 else path(parents, parents[node]) | {node}


def ancestor_matrix(shapes: list[list[int]]) -> torch.Tensor:
    """Which node sees which, padded to the largest tree."""
    matrix = torch.zeros(len(shapes), QUERIES, QUERIES, dtype=torch.bool)
    for row, parents in enumerate(shapes):
        for node in range(len(parents)):
            matrix[row, node, list(path(parents, node))] = True
    return matrix


@given(shapes=st.lists(trees(), min_size=1, max_size=3), data=st.data())
def test_tree_nodes_see_the_prefix_and_their_path(
    shapes: list[list[int]], data: st.DataObject
) -> None:
    """A node sees its prefix and the nodes on its path from the root, nothing else."""
    prefixes = [data.draw(st.integers(0, KEYS - QUERIES)) for _ in shapes]
    found = seen(tree(torch.tensor(prefixes), ancestor_matrix(shapes)))
    for row, (prefix, parents) in enumerate(zip(prefixes, shapes, strict=True)):
        for query in range(QUERIES):
            expected = set[int]()
            if query < len(parents):
                expected = set(range(prefix)) | {prefix + node for node in path(parents, query)}
            assert set(found[row, query].nonzero().flatten().tolist()) == expected


def test_chain_is_causal() -> None:
    """A tree without branches is a causal chain."""
    prefix = torch.tensor([0, 4])
    chain = ancestor_matrix([[0, 0, 1, 2, 3], [0, 0, 1]])

    assert torch.equal(seen(tree(prefix, chain)), seen(causal(prefix, torch.tensor([5, 3]))))


@given(batch=batches, window=st.integers(1, KEYS + 1))
def test_window_hides_what_lies_far_back(batch: list[tuple[int, int]], window: int) -> None:
    """A causal query with a window sees its own and the window - 1 tokens before it."""
    found = seen(sliding(causal(*lengths(batch)), window))
    for row, query in itertools.product(range(len(batch)), range(QUERIES)):
        prefix, queries = batch[row]
        position = prefix + query
        near = range(max(0, position - window + 1), position + 1)
        expected = list(near) if query < queries else []
        assert found[row, query].nonzero().flatten().tolist() == expected


def test_window_beyond_the_context_hides_nothing() -> None:
    """A window as long as the context leaves any visibility as it was."""
    inner = block_causal(*lengths(RAGGED), 4)

    assert torch.equal(seen(sliding(inner, KEYS)), seen(inner))


def test_only_whole_and_causal_claim_a_kind() -> None:
    """What hides more than the causal triangle needs a mask, and says so."""
    given_lengths = lengths(RAGGED)

    assert whole(*given_lengths).kind == "whole"
    assert causal(*given_lengths).kind == "causal"
    assert block_causal(*given_lengths, 4).kind == "partial"
    assert sliding(whole(*given_lengths), 4).kind == "partial"


def test_bad_visibilities_are_refused() -> None:
    """What is wrong is told with its value."""
    one, two = torch.tensor([1]), torch.tensor([1, 2])
    with pytest.raises(ValueError, match="1 rows have a prefix and 2 have queries"):
        whole(one, two)
    with pytest.raises(ValueError, match=r"torch\.float32"):
        causal(one.float(), one)
    with pytest.raises(ValueError, match="block_tokens is at least 1, got 0"):
        block_causal(one, one, 0)
    with pytest.raises(ValueError, match="window_tokens is at least 1, got -3"):
        sliding(whole(one, one), -3)
    with pytest.raises(ValueError, match="got 2 x 3"):
        tree(one, torch.ones(1, 2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="of 1 rows, not 2"):
        dense(whole(one, one), 2, 4, 4)
