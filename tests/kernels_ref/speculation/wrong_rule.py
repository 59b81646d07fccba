"""How drafts must not be accepted: chosen ones by the ratio of laws, as if they had been drawn."""

from collections.abc import Callable

import numpy as np

from kernels_ref.decoding.draft_tree import ROOT, DraftTree
from kernels_ref.decoding.query import FloatArray
from kernels_ref.decoding.speculation import Draw, residual

Accept = Callable[[DraftTree, FloatArray, Draw], tuple[list[int], int]]


def accepting_by_ratio(draft: FloatArray) -> Accept:
    """Candidates are tried in order, each with min(1, p / q) for the law *draft* that ranked them.

    After a rejection the positive part of p - q is the law that is left, as for drafts drawn of q.
    """
    return _trying(lambda law, token: (law[token] / draft[token], residual(law, draft)))


def accepting_as_certain() -> Accept:
    """EAGLE's rule for a tree: q is 1 at the candidate, which is struck out once rejected."""

    def attempt(law: FloatArray, token: int) -> tuple[float, FloatArray]:
        left = law.copy()
        left[token] = 0.0
        return float(law[token]), left / left.sum() if left.sum() > 0 else left

    return _trying(attempt)


def _trying(attempt: Callable[[FloatArray, int], tuple[float, FloatArray]]) -> Accept:
    def accept(tree: DraftTree, target: FloatArray, draw: Draw) -> tuple[list[int], int]:
        path: list[int] = []
        node = ROOT
        while True:
            law, found = target[node], None
            for child in np.flatnonzero(tree.parents == node).tolist():
                ratio, left = attempt(law, int(tree.tokens[child]))
                sure = min(1.0, ratio)
                if draw(np.array([sure, 1.0 - sure])) == 0:
                    found = child
                    break
                law = left
            if found is None:
                return path, draw(law)
            path.append(found)
            node = found

    return accept
