"""Trees of drafts: which candidates are in them, and who is whose ancestor."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoding.draft_tree import DraftTree, chain
from kernels_ref.decoding.growing_tree import GrowingTree, product_tree
from kernels_ref.decoding.query import FloatArray

Paths = dict[tuple[int, ...], float]
"""Prefixes of drafts and their scores."""


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    """The tokens from below the root to every node, by walking up."""
    found = []
    for start in range(1, len(tree.tokens)):
        node, path = start, []
        while node > 0:
            path.append(int(tree.tokens[node]))
            node = int(tree.parents[node])
        found.append(tuple(reversed(path)))
    return found


def best_of(scores: FloatArray, top_k: int) -> list[int]:
    """The *top_k* tokens of largest score that have any probability."""
    order = sorted(range(len(scores)), key=lambda token: -scores[token])
    return [token for token in order if np.isfinite(scores[token])][:top_k]


def all_prefixes(scores: FloatArray, top_k: int) -> Paths:
    """Every prefix of one of the best tokens at each place, with its sum."""
    ranked = [best_of(row, top_k) for row in scores]
    return {
        prefix: float(sum(scores[place, token] for place, token in enumerate(prefix)))
        for length in range(1, len(scores) + 1)
        for prefix in itertools.product(*ranked[:length])
    }


def log_laws(rng: np.random.Generator, rows: int, vocab: int, zeros: float) -> FloatArray:
    """Log-probabilities [rows, vocab], a share of *zeros* among them, never all of a row."""
    weights = rng.random((rows, vocab)) * (rng.random((rows, vocab)) >= zeros)
    weights[np.arange(rows), rng.integers(vocab, size=rows)] += 0.5
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=1, keepdims=True)))


def check_form(tree: DraftTree, top_k: int) -> None:
    """Parents come first, siblings differ, and no node has more than *top_k* children."""
    assert tree.parents[0] == -1
    assert (tree.parents[1:] >= 0).all()
    assert (tree.parents < np.arange(len(tree.parents))).all()
    edges = list(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))
    assert len(set(edges)) == len(edges)
    assert np.bincount(tree.parents[1:], minlength=1).max(initial=0) <= top_k
    paths = paths_of(tree)
    assert tree.depths.tolist() == [0, *map(len, paths)]
    assert tree.longest == max(map(len, paths), default=0)
    assert tree.drafts == len(paths)


def check_scores(found: Iterable[float], everything: Iterable[float], count: int) -> None:
    """The scores that were chosen are the largest ones of all, the best one first."""
    chosen = list(found)
    assert chosen == sorted(chosen, reverse=True)
    assert np.allclose(chosen, sorted(everything, reverse=True)[:count], rtol=1e-12, atol=0)


@settings(max_examples=30)
@given(
    places=st.integers(1, 4),
    vocab=st.integers(1, 5),
    top_k=st.integers(1, 5),
    tree_size=st.integers(1, 12),
    zeros=st.sampled_from([0.0, 0.4, 0.9]),
    seed=st.integers(0, 2**31),
)
def test_uno_s_tree_holds_the_best_prefixes_of_all(
    places: int, vocab: int, top_k: int, tree_size: int, zeros: float, seed: int
) -> None:
    """Of every prefix over the best tokens of each place, the V of largest probability."""
    scores = log_laws(np.random.default_rng(seed), places, vocab, zeros)
    tree = product_tree(7, scores, top_k=top_k, tree_size=tree_size)
    check_form(tree, top_k)
    assert tree.tokens[0] == 7
    everything = all_prefixes(scores, top_k)
    check_scores([everything[path] for path in paths_of(tree)], everything.values(), tree_size)


def naive_growth(rng_seed: int, levels: int, vocab: int, top_k: int, zeros: float) -> Paths:
    """EAGLE-2's expansion by dictionaries: of each level the K best nodes get K children."""
    rng = np.random.default_rng(rng_seed)
    frontier: Paths = {(): 0.0}
    everything: Paths = {}
    for _ in range(levels):
        scores = log_laws(rng, len(frontier), vocab, zeros)
        children = {
            (*path, token): before + float(row[token])
            for (path, before), row in zip(frontier.items(), scores, strict=True)
            for token in best_of(row, top_k)
        }
        everything |= children
        ranked = sorted(children, key=lambda path: -children[path])
        frontier = {path: children[path] for path in ranked[:top_k]}
    return everything


@settings(max_examples=30)
@given(
    levels=st.integers(1, 5),
    vocab=st.integers(1, 6),
    top_k=st.integers(1, 4),
    tree_size=st.integers(1, 20),
    zeros=st.sampled_from([0.0, 0.4, 0.9]),
    seed=st.integers(0, 2**31),
)
def test_eagle_s_tree_holds_the_best_candidates(
    levels: int, vocab: int, top_k: int, tree_size: int, zeros: float, seed: int
) -> None:
    """The same candidates as an expansion written out, and of them the V best."""
    rng = np.random.default_rng(seed)
    tree = GrowingTree(7, top_k=top_k, width=top_k)
    for _ in range(levels):
        tree.grow(log_laws(rng, len(tree.frontier_tokens), vocab, zeros))
    best = tree.best(tree_size)
    check_form(best, top_k)
    everything = naive_growth(seed, levels, vocab, top_k, zeros)
    check_scores([everything[path] for path in paths_of(best)], everything.values(), tree_size)


def test_a_tree_by_hand() -> None:
    """Places with (0.6, 0.3, 0.1) and (0.5, 0.4, 0.1), two candidates each, four nodes.

    Prefixes: 0 has 0.6; 00 0.30, 1 0.30, 01 0.24, 10 0.15, 11 0.12.
    """
    tree = product_tree(9, np.log([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]]), top_k=2, tree_size=4)
    assert sorted(paths_of(tree)) == [(0,), (0, 0), (0, 1), (1,)]
    assert tree.longest == 2
    assert tree.child(0, 1) is not None
    assert tree.child(0, 2) is None


def test_ancestors_by_hand() -> None:
    """Root, two children, and a child of the second."""
    tree = DraftTree(np.array([5, 6, 7, 8]), np.array([-1, 0, 0, 2]))
    assert tree.ancestors.astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 1, 1],
    ]
    assert tree.depths.tolist() == [0, 1, 1, 2]


def test_a_chain_is_one_path() -> None:
    """Every node sees all before it, and nothing of it is ever moved."""
    found = chain([4, 5, 6])
    assert found.ancestors.tolist() == np.tri(3, dtype=bool).tolist()
    assert (found.longest, found.drafts, found.branches) == (2, 2, False)
    assert chain([4]).longest == 0


@pytest.mark.parametrize("scores", [np.zeros((3, 1)), np.full((3, 2), -1.0)])
def test_of_equal_scores_the_parent_comes_first(scores: FloatArray) -> None:
    """Certain drafts have the score of their parents, and are a tree nevertheless."""
    tree = product_tree(9, scores, top_k=2, tree_size=2)
    check_form(tree, 2)
    assert tree.drafts == 2


def test_tokens_without_probability_are_no_candidates() -> None:
    """Where fewer tokens are possible than are asked for, a level is that much shorter."""
    scores = np.full((1, 6), -np.inf)
    scores[0, 4] = 0.0
    tree = GrowingTree(9, top_k=3, width=3)
    for _ in range(3):
        tree.grow(scores)
        assert tree.frontier_tokens.tolist() == [4]
    assert paths_of(tree.best(60)) == [(4,), (4, 4), (4, 4, 4)]
