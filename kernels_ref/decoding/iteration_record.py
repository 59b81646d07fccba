"""IterationRecord: what decoding one request did, forward by forward and draft by draft.

An iteration is a draft and its verification, or for autoregression one forward; the prefill, which
draws the first token, belongs to none.
"""

from dataclasses import dataclass
from typing import Final

from kernels_ref.decoding.query import Kind, Query

PREFILL: Final = -1
"""Stands for the iteration of a prefill."""


@dataclass
class StepRow:
    """One forward of a request."""

    iteration: int
    """From 0; `PREFILL` before the first."""
    kind: Kind
    prefix_tokens: int
    """Places before its queries."""
    query_tokens: int
    logit_rows: int
    adapter_tokens: int
    """Queries that go through the adapters."""
    feature_tokens: int
    """Features of the target that a drafter takes in."""
    moved_tokens: int = 0
    """Tokens whose KV is moved afterwards, so that the accepted path of a tree is contiguous."""


@dataclass(frozen=True)
class IterationRow:
    """One iteration of a request."""

    prefix_tokens: int
    """Tokens with stored KV before it."""
    drafted: int
    """The longest path of drafts that could be accepted."""
    nodes: int
    """Drafts that are verified; those of a chain are one path."""
    accepted: int
    """Drafts that are accepted, those too that an end token or the limit then cuts off."""
    emitted: int
    """Tokens that are kept, an end token among them."""
    cut: bool
    """Whether an end token or the limit cut any off."""


class IterationRecord:
    """The rows, as a decoder fills them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.steps: list[StepRow] = []
        self.iterations: list[IterationRow] = []

    def ask(self, query: Query) -> None:
        """A forward with *query* begins.

        Only the first draft of an iteration takes in the target's features; what later ones bring
        is the drafter's own.
        """
        iteration = PREFILL if query.kind == "prefill" else len(self.iterations)
        first = not self.steps or self.steps[-1].iteration < iteration
        self.steps.append(
            StepRow(
                iteration=iteration,
                kind=query.kind,
                prefix_tokens=query.left,
                query_tokens=len(query.tokens),
                logit_rows=len(query.tokens) - query.asked,
                adapter_tokens=0 if query.adapted is None else int(query.adapted.sum()),
                feature_tokens=0 if query.features is None or not first else len(query.features),
            )
        )

    def iterate(self, row: IterationRow, *, moved_tokens: int = 0) -> None:
        """The iteration of the last forward is over, and has so many tokens moved."""
        self.iterations.append(row)
        self.steps[-1].moved_tokens = moved_tokens
