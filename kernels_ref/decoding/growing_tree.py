"""Trees that grow level by level, the most likely candidates first.

A candidate's score is the sum of the log-probabilities on its path, which falls along a path: of
equal scores the older candidate comes first, so the best ones are always a tree. Scores come from a
drafter alone, so whatever is chosen, verification keeps the target's law.
"""

import numpy as np

from kernels_ref.decoding.draft_tree import NO_PARENT, ROOT, DraftTree
from kernels_ref.decoding.query import FloatArray, IntArray


class GrowingTree:
    """All candidates so far, and the frontier: those of the newest level that may grow on."""

    def __init__(self, root: int, *, top_k: int, width: int) -> None:
        """Every node of the frontier gets *top_k* children, the best *width* are the next one."""
        self._top_k, self._width = top_k, width
        self._tokens: IntArray = np.array([root])
        self._parents: IntArray = np.array([NO_PARENT])
        self._scores: FloatArray = np.zeros(1)
        self._frontier: IntArray = np.array([ROOT])
        self.parent_rows: IntArray = np.zeros(0, dtype=np.int64)
        """Which of the frontier before each of the frontier is a child of, [frontier]."""

    @property
    def frontier_tokens(self) -> IntArray:
        """Tokens of the frontier, the best one first."""
        return self._tokens[self._frontier]

    def grow(self, scores: FloatArray) -> None:
        """Another level from the log-probabilities *scores* [frontier, vocab] of its children.

        One row stands for all. Tokens without probability are no candidates.
        """
        tokens = _best(scores)[:, : self._top_k]
        own = np.take_along_axis(scores, tokens, axis=1)
        sums = self._scores[self._frontier, None] + own
        row, rank = np.nonzero(np.isfinite(sums))
        behind = len(self._tokens)
        self._tokens = np.append(self._tokens, np.broadcast_to(tokens, sums.shape)[row, rank])
        self._parents = np.append(self._parents, self._frontier[row])
        self._scores = np.append(self._scores, sums[row, rank])
        kept = _best(sums[row, rank])[: self._width]
        self._frontier, self.parent_rows = behind + kept, row[kept]

    def best(self, tree_size: int) -> DraftTree:
        """The *tree_size* best candidates behind the root, the best one first."""
        chosen = 1 + _best(self._scores[1:])[:tree_size]
        number = np.zeros(len(self._tokens), dtype=np.int64)
        number[chosen] = np.arange(1, len(chosen) + 1)
        nodes = np.append(ROOT, chosen)
        parents = number[self._parents[nodes]]
        parents[ROOT] = NO_PARENT
        return DraftTree(self._tokens[nodes], parents)


def product_tree(root: int, scores: FloatArray, *, top_k: int, tree_size: int) -> DraftTree:
    """The *tree_size* best prefixes of drafts that are independent (Uno, section 4.1.2).

    *scores* [places, vocab] are log-probabilities, of which the *top_k* best of each place count. A
    prefix among the best V of all is one of the best V of its length, and so is its parent.
    """
    tree = GrowingTree(root, top_k=top_k, width=tree_size)
    for place in scores:
        tree.grow(place[None])
    return tree.best(tree_size)


def _best(scores: FloatArray) -> IntArray:
    """Where the scores lie in falling order, along the last axis; of equal ones the first first."""
    return np.argsort(-scores, axis=-1, kind="stable")
