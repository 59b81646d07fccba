"""Speculation: which drafts are kept, so that tokens follow the target's law and no other.

Drafts that are drawn are accepted by the ratio of the two laws (Leviathan et al., 2023; Uno,
Algorithm 1). Drafts that are chosen, as an argmax or the best of a tree, are not drawn from any
law that the ratio could be taken of: there the target draws, and a draft is kept if it is that.
"""

from collections.abc import Callable, Iterable

import numpy as np

from kernels_ref.decoding.draft_tree import ROOT, DraftTree
from kernels_ref.decoding.query import FloatArray

Draw = Callable[[FloatArray], int]
"""A distribution [n] in, one of its entries out."""


def drawn(probabilities: FloatArray, uniform: float) -> int:
    """The entry that *uniform*, from 0 up to 1, falls on; never one without probability."""
    reached = np.cumsum(probabilities)
    return int(np.searchsorted(reached, uniform * reached[-1], side="right"))


def residual(target: FloatArray, draft: FloatArray) -> FloatArray:
    """The law of a token once a draft is rejected: what the target has more than the drafter."""
    left = np.maximum(target - draft, 0.0)
    total = left.sum()
    # Nothing is left only where both are one law, of which no draft is rejected but by rounding.
    return left / total if total > 0 else target


def accept_drawn(
    drafts: Iterable[int], draft: FloatArray, target: FloatArray, draw: Draw
) -> tuple[int, int]:
    """(how many drafts are kept from the left, the token behind them).

    Each of *drafts* was drawn from its row of *draft* [n, vocab]; *target* [n + 1, vocab] has the
    target's law at the same places, and behind them.
    """
    for place, token in enumerate(drafts):
        ratio = min(1.0, target[place, token] / draft[place, token])
        if draw(np.array([ratio, 1.0 - ratio])):
            return place, draw(residual(target[place], draft[place]))
    return len(draft), draw(target[-1])


def accept_chosen(tree: DraftTree, target: FloatArray, draw: Draw) -> tuple[list[int], int]:
    """(nodes that are kept, from below the root on, and the token behind them).

    *target* [nodes, vocab] has the target's law behind each node.
    """
    path: list[int] = []
    node = ROOT
    while True:
        token = draw(target[node])
        child = tree.child(node, token)
        if child is None:
            return path, token
        path.append(child)
        node = child
