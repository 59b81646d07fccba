"""EAGLE-3 with a draft tree that grows level by level, then one tree verification."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import torch
from pydantic import Field, Strict

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import LEAST_BLOCK_TOKENS, TreeDrafting, Width
from kernels_ref.decoding.draft_queries import taking_in
from kernels_ref.decoding.draft_tree import DraftTree
from kernels_ref.decoding.growing_tree import GrowingTree
from kernels_ref.decoding.query import BoolArray, IntArray, Prediction, Query, Tree
from kernels_ref.decoding.sampling import log_probabilities
from kernels_ref.decoding.verifying import begun, features_of, verified

PROMPT = "causal"
CHECKPOINT = "eagle3"
RECORDS = "iterations"
DRAFTER = "eagle3"
GUARANTEED_TOKENS = 1
MOST_LEVELS: Final = 7
"""Forwards of a level behind the first, whatever the block: EAGLE's depth, which Uno keeps."""


@dataclass(frozen=True, kw_only=True)
class Parameters(TreeDrafting):
    """A node has *top_k* children, as many nodes of a level have any; *block* is its depth.

    (B, K, V) are (8, 32, 60) in Uno, section 5.2.3; K is 10 in its appendix and in EAGLE's code.
    """

    policy: Literal["eagle3-tree"] = "eagle3-tree"
    block: Annotated[int, Strict(), Field(ge=LEAST_BLOCK_TOKENS, le=MOST_LEVELS + 1)] | None = None
    tree_size: Width = 60


def _levels(block_tokens: int) -> int:
    """Forwards of the drafter behind the first."""
    return min(block_tokens - 1, MOST_LEVELS)


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:
    """All nodes that are verified, or those that the drafter expands."""
    expanded = parameters.top_k * _levels(block_tokens)
    return max(parameters.tree_size - 1, expanded - 2)


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """The target's KV is moved by the next verification: drafts are asked of the drafter."""
    features = features_of((yield from begun(row, parameters)))
    moved = None
    while not row.is_over:
        tree = yield from _draft_tree(row, features, parameters)
        done = yield from verified(row, tree, parameters, moved=moved)
        features, moved = done.features, done.move


def _draft_tree(
    row: Continuation, features: torch.Tensor, parameters: Parameters
) -> Generator[Query, Prediction, DraftTree]:
    """Children of the newest token, then of the best nodes of each level."""
    said = yield taking_in(row, features)
    tree = GrowingTree(row.last, top_k=parameters.top_k, width=parameters.top_k)
    tree.grow(log_probabilities(said.logits))
    states, ancestors = features_of(said)[-1:], np.zeros((1, 0), dtype=np.bool_)
    for level in range(_levels(parameters.block_tokens(row.facts))):
        if not len(tree.frontier_tokens):
            break
        own = np.eye(len(tree.parent_rows), dtype=np.bool_)
        ancestors = np.hstack([ancestors[tree.parent_rows], own])
        said = yield _level(row, tree.frontier_tokens, ancestors, level, states[tree.parent_rows])
        states = features_of(said)
        tree.grow(log_probabilities(said.logits))
    return tree.best(parameters.tree_size)


def _level(
    row: Continuation,
    tokens: IntArray,
    ancestors: BoolArray,
    level: int,
    states: torch.Tensor,
) -> Query:
    """Nodes of one level behind those of the earlier ones, each with its parent's state."""
    first, count = row.stored_tokens, len(tokens)
    left = first + ancestors.shape[1] - count
    return Query(
        "draft",
        left,
        tokens,
        np.full(count, left + count),
        count,
        tree=Tree(first, ancestors, np.full(count, first + level)),
        features=states,
    )
