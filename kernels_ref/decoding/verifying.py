"""Verifying: what decoders that draft have in common besides their drafts.

Between iterations the KV of all tokens but the newest is stored.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_tree import DraftTree
from kernels_ref.decoding.iteration_record import IterationRow
from kernels_ref.decoding.query import IntArray, Kind, Move, Prediction, Query, Tree
from kernels_ref.decoding.sampling import Sampling
from kernels_ref.decoding.speculation import accept_chosen

Answered = Generator[Query, Prediction, Prediction]
"""Asks one thing, and comes back with what the model said."""


@dataclass(frozen=True, eq=False)
class Verified:
    """What a verification leaves to the next iteration."""

    said: Prediction
    places: IntArray
    """Queries whose tokens are kept, the root first."""
    move: Move | None
    """What makes their KV contiguous, where it is not."""

    @property
    def features(self) -> torch.Tensor:
        """What the target's features are at the places that are kept, [places, width]."""
        return features_of(self.said)[torch.from_numpy(self.places)]


def features_of(said: Prediction) -> torch.Tensor:
    """The features of a prediction; ValueError for a model that gives none."""
    if said.features is None:
        rule = "a drafter takes in features, but the model gives none"
        raise ValueError(rule)
    return said.features


def causal(kind: Kind, left: int, tokens: Sequence[int] | IntArray, **about: Any) -> Query:  # noqa: ANN401 (fields of a query)
    """A query whose tokens see up to themselves."""
    places = left + np.arange(len(tokens))
    return Query(kind, left, np.array(tokens), places + 1, len(tokens), **about)


def begun(row: Continuation, sampling: Sampling) -> Answered:
    """Prefill the prompt and commit the first token, which is the target's own."""
    prompt = row.tokens.copy()
    said = yield causal("prefill", 0, prompt, asked=len(prompt) - 1)
    row.extend([row.draw(sampling.probabilities(said.logits)[0])])
    return said


def verify(left: int, tree: DraftTree, moved: Move | None = None) -> Query:
    """The nodes of *tree* from place *left* on; a chain is seen causally."""
    if not tree.branches:
        return causal("verify", left, tree.tokens, moved=moved)
    end = np.full(len(tree.tokens), left + len(tree.tokens))
    nodes = Tree(left, tree.ancestors, left + tree.depths)
    return Query("verify", left, tree.tokens, end, len(end), tree=nodes, moved=moved)


def verified(
    row: Continuation,
    tree: DraftTree,
    sampling: Sampling,
    *,
    free_root: bool = False,
    moved: Move | None = None,
) -> Generator[Query, Prediction, Verified]:
    """One verification of chosen drafts, and the end of the iteration.

    The root of *tree* is the newest token, or the one behind it where it is free: then it is
    committed too. *moved* is what the verification before left to do.
    """
    left = row.stored_tokens + free_root
    said = yield verify(left, tree, moved)
    path, token = accept_chosen(tree, sampling.probabilities(said.logits), row.draw)
    places = np.array([0, *path])
    kept = tree.tokens[places if free_root else places[1:]]
    finish(row, [*kept.tolist(), token], tree, accepted=len(path))
    return Verified(said, places, _move(left, places))


def finish(row: Continuation, tokens: Sequence[int], tree: DraftTree, *, accepted: int) -> None:
    """Commit *tokens* and note the iteration.

    Of a tree as many tokens are on record as moved as are kept: what an engine copies that moves
    the whole path, wherever it lies.
    """
    before = row.stored_tokens
    emitted = row.extend(tokens)
    done = IterationRow(
        prefix_tokens=before,
        drafted=tree.longest,
        nodes=tree.drafts,
        accepted=accepted,
        emitted=emitted,
        cut=emitted < len(tokens),
    )
    row.record.iterate(done, moved_tokens=emitted if tree.branches else 0)


def _move(left: int, places: IntArray) -> Move | None:
    """From behind the root on, which is where it belongs."""
    if (np.diff(places) == 1).all():
        return None
    return Move(left + places[1:], left + 1)
