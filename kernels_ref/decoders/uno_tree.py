"""Uno's tree sampler: the best prefixes of one draft, verified as a tree (Uno, section 4.1.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import TreeDrafting
from kernels_ref.decoding.draft_queries import noise_draft
from kernels_ref.decoding.growing_tree import product_tree
from kernels_ref.decoding.sampling import log_probabilities
from kernels_ref.decoding.verifying import begun, verified

PROMPT = "causal"
CHECKPOINT = "uno"
RECORDS = "iterations"
DRAFTER = "noise-adapters"
GUARANTEED_TOKENS = 2


@dataclass(frozen=True, kw_only=True)
class Parameters(TreeDrafting):
    """(B, K, V) of the paper are *block*, *top_k* and *tree_size*.

    Published: (16, 32, 32), fastest for one request, and (16, 32, 60) in the appendix.
    """

    policy: Literal["uno-tree"] = "uno-tree"


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:
    """All nodes behind the free token, or the noise."""
    return max(parameters.tree_size, block_tokens - 2)


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent: the noise too follows from seed and request alone."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """Candidates are ranked by what the drafter thinks of them, at any temperature."""
    yield from begun(row, parameters)
    block, moved = parameters.block_tokens(row.facts), None
    while not row.is_over:
        said = yield noise_draft(row, block, moved)
        free = row.draw(parameters.probabilities(said.logits[:1])[0])
        scores = log_probabilities(said.logits[1:])
        tree = product_tree(free, scores, top_k=parameters.top_k, tree_size=parameters.tree_size)
        done = yield from verified(row, tree, parameters, free_root=True)
        moved = done.move
