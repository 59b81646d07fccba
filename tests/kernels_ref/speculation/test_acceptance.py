"""Acceptance on the probabilities themselves: what comes out follows the target's law exactly."""

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoding.draft_tree import DraftTree, chain
from kernels_ref.decoding.query import FloatArray
from kernels_ref.decoding.speculation import Draw, accept_chosen, accept_drawn, drawn, residual
from tests.kernels_ref.speculation.enumerated import distance, law_of
from tests.kernels_ref.speculation.wrong_rule import (
    Accept,
    accepting_as_certain,
    accepting_by_ratio,
)

VOCAB = 4


def laws(rng: np.random.Generator, rows: int, zeros: float) -> FloatArray:
    """Random laws [rows, VOCAB], with a share of *zeros*, as top-k and top-p leave them."""
    weights = rng.exponential(size=(rows, VOCAB)) * (rng.random((rows, VOCAB)) >= zeros)
    weights[np.arange(rows), rng.integers(VOCAB, size=rows)] += 0.01
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


ZEROS = st.sampled_from([0.0, 0.3, 0.7])
SEEDS = st.integers(0, 2**31)


@settings(max_examples=40)
@given(zeros=ZEROS, seed=SEEDS)
def test_a_draft_accepted_or_replaced_has_the_target_s_law(zeros: float, seed: int) -> None:
    """Sum over d of q(d) [accept d, or else the residual] = p, as sums and without a program."""
    target, draft = laws(np.random.default_rng(seed), 2, zeros)
    told = np.zeros(VOCAB)
    for token in np.flatnonzero(draft).tolist():
        accepted = min(1.0, target[token] / draft[token])
        told[token] += draft[token] * accepted
        if accepted < 1:
            told += draft[token] * (1 - accepted) * residual(target, draft)
    assert np.abs(told - target).max() < 1e-12


@settings(max_examples=40)
@given(zeros=ZEROS, seed=SEEDS)
def test_the_residual_by_its_definition(zeros: float, seed: int) -> None:
    """The positive part of p - q, divided by its sum; p where the two are one."""
    target, draft = laws(np.random.default_rng(seed), 2, zeros)
    parts = [max(float(p - q), 0.0) for p, q in zip(target, draft, strict=True)]
    expected = [part / sum(parts) for part in parts] if any(parts) else target.tolist()
    assert residual(target, draft).tolist() == pytest.approx(expected)
    assert residual(target, target).tolist() == target.tolist()


def joint(target: FloatArray, tokens: int) -> dict[tuple[int, ...], float]:
    """The law of so many tokens that do not depend on one another, by *target*'s first rows."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for row in target[:tokens].tolist():
        found = {
            (*path, token): chance * share
            for path, chance in found.items()
            for token, share in enumerate(row)
        }
    return {path: chance for path, chance in found.items() if chance}


def completed(
    law: dict[tuple[int, ...], float], target: FloatArray
) -> dict[tuple[int, ...], float]:
    """The law of as many tokens as *target* has rows: what an iteration gave, then the target's."""
    whole: dict[tuple[int, ...], float] = {}
    for path, chance in law.items():
        for rest, share in joint(target[len(path) :], len(target) - len(path)).items():
            whole[*path, *rest] = whole.get((*path, *rest), 0.0) + chance * share
    return whole


@settings(max_examples=15)
@given(drafts=st.integers(1, 3), zeros=ZEROS, seed=SEEDS)
def test_drawn_drafts_leave_the_target_s_law(drafts: int, zeros: float, seed: int) -> None:
    """All ways that drafts and acceptance fall, enumerated: the joint law is the target's."""
    rng = np.random.default_rng(seed)
    draft, target = laws(rng, drafts, zeros), laws(rng, drafts + 1, zeros)

    def run(draw: Draw) -> tuple[int, ...]:
        tokens = [draw(row) for row in draft]
        accepted, behind = accept_drawn(tokens, draft, target, draw)
        return (*tokens[:accepted], behind)

    expected = joint(target, drafts + 1)
    assert distance(completed(law_of(run), target), expected) < 1e-12


def walked(tree: DraftTree, target: FloatArray, accept: Accept) -> dict[tuple[int, ...], float]:
    """The law of what *accept* keeps of a tree, and the token behind."""

    def run(draw: Draw) -> tuple[int, ...]:
        path, behind = accept(tree, target, draw)
        return (*tree.tokens[path].tolist(), behind)

    return law_of(run)


def some_tree(rng: np.random.Generator, nodes: int) -> DraftTree:
    """A random tree; siblings that would hold one token are left out."""
    edges = {(-1, -1): 0}
    for _ in range(nodes):
        edge = (int(rng.integers(len(edges))), int(rng.integers(VOCAB)))
        edges.setdefault(edge, len(edges))
    parents, tokens = np.array(list(edges)).T
    return DraftTree(tokens, parents)


@settings(max_examples=30)
@given(nodes=st.integers(0, 12), zeros=ZEROS, seed=SEEDS)
def test_chosen_drafts_leave_the_target_s_law(nodes: int, zeros: float, seed: int) -> None:
    """Whatever the tree: a path and the token behind have the product of the target's laws.

    EAGLE's rule, a draft probability of 1 with rejected candidates struck out, is the same law.
    """
    rng = np.random.default_rng(seed)
    tree = some_tree(rng, nodes)
    target = laws(rng, len(tree.tokens), zeros)
    found = walked(tree, target, accept_chosen)
    assert math.isclose(sum(found.values()), 1.0, abs_tol=1e-12)
    for path, chance in found.items():
        node, expected = 0, 1.0
        for token in path[:-1]:
            expected *= target[node, token]
            (node,) = [
                child
                for child in range(1, len(tree.tokens))
                if (tree.parents[child], tree.tokens[child]) == (node, token)
            ]
        assert chance == pytest.approx(expected * target[node, path[-1]], abs=1e-14)
        assert tree.child(node, path[-1]) is None
    assert distance(found, walked(tree, target, accepting_as_certain())) < 1e-12


def test_the_ratio_test_on_chosen_drafts_by_hand() -> None:
    """With p (0.4, 0.3, 0.3) and q (0.5, 0.3, 0.2) the argmax is kept in 0.8, not 0.4, of cases.

    The residual has the third token alone: (0.8, 0, 0.2) comes out, off by 0.4 in total variation.
    """
    target = np.array([[0.4, 0.3, 0.3]] * 2)
    draft = np.array([0.5, 0.3, 0.2])
    found = walked(chain([9, 0]), target, accepting_by_ratio(draft))
    first = dict.fromkeys(range(3), 0.0)
    for path, chance in found.items():
        first[path[0]] += chance
    assert first == pytest.approx({0: 0.8, 1: 0.0, 2: 0.2})
    right = walked(chain([9, 0]), target, accept_chosen)
    assert distance(completed(right, target), joint(target, 2)) < 1e-12
    assert distance(completed(found, target), joint(target, 2)) == pytest.approx(0.4)


def test_greedy_is_the_same_rule() -> None:
    """Of one-hot laws nothing is left to chance: drafts are kept while they are the argmax."""
    target = np.eye(VOCAB)[[2, 0, 1]]

    def never(probabilities: FloatArray) -> int:
        assert probabilities.max() == 1
        return int(probabilities.argmax())

    for drafts, kept in (([2, 0], 2), ([2, 3], 1), ([1, 0], 0)):
        expected = (kept, [2, 0, 1][kept])
        assert accept_drawn(drafts, np.eye(VOCAB)[drafts], target, never) == expected
        path, behind = accept_chosen(chain([9, *drafts]), target, never)
        assert (len(path), behind) == expected


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 0.1, 0.25, 1.0]), min_size=1, max_size=6),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_a_draw_is_the_entry_that_the_uniform_falls_on(
    weights: list[float], uniform: float
) -> None:
    """The first entry whose running sum exceeds the uniform, which is never an empty one."""
    if not sum(weights):
        return
    law = np.array(weights) / sum(weights)
    entry = drawn(law, uniform)
    assert law[entry] > 0
    below = float(law[:entry].sum())
    assert below <= uniform + 1e-12
    assert uniform < below + law[entry] + 1e-12


@pytest.mark.parametrize("uniform", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_no_uniform_leads_beyond_the_law(uniform: float) -> None:
    """Laws that sum to a little more or less than 1, and whose last entries are empty."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        law: Any = rng.random(9)
        law[6:] = 0.0
        law /= law.sum() * (1 + rng.normal() * 1e-15)
        assert law[drawn(law, uniform)] > 0
