"""Draft trees: candidates for the next tokens that share their beginnings, verified at once.

Node 0 is the root, the token before all drafts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kernels_ref.decoding.query import BoolArray, IntArray

ROOT: Final = 0
NO_PARENT: Final = -1


@dataclass(frozen=True, eq=False)
class DraftTree:
    """A tree; every node comes behind its parent, and siblings hold different tokens."""

    tokens: IntArray
    """[nodes]"""
    parents: IntArray
    """[nodes], `NO_PARENT` for the root."""
    branches: bool = True
    """Whether it may have more than one path: then attention needs its mask, and the path that is
    kept may have to be moved."""

    @property
    def drafts(self) -> int:
        """Nodes but the root."""
        return len(self.tokens) - 1

    @cached_property
    def ancestors(self) -> BoolArray:
        """[nodes, nodes], whether the second is an ancestor of the first, or itself."""
        related = np.eye(len(self.tokens), dtype=np.bool_)
        for node, parent in enumerate(self.parents[1:].tolist(), start=1):
            related[node] |= related[parent]
        return related

    @property
    def depths(self) -> IntArray:
        """[nodes], 0 for the root."""
        return np.asarray(self.ancestors.sum(axis=1) - 1)

    @property
    def longest(self) -> int:
        """Drafts on the longest path."""
        return int(self.depths.max())

    def child(self, node: int, token: int) -> int | None:
        """The child of *node* that holds *token*, if there is one."""
        found = np.flatnonzero((self.parents == node) & (self.tokens == token))
        return int(found[0]) if len(found) else None


def chain(tokens: Sequence[int]) -> DraftTree:
    """One path of *tokens*, the root first."""
    return DraftTree(np.array(tokens, dtype=np.int64), np.arange(len(tokens)) - 1, branches=False)
