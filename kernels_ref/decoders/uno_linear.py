"""Uno's linear sampler: noise denoised in one forward, then verified (Uno, Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import Drafting
from kernels_ref.decoding.draft_queries import noise_draft
from kernels_ref.decoding.draft_tree import chain
from kernels_ref.decoding.speculation import accept_drawn
from kernels_ref.decoding.verifying import begun, finish, verify

PROMPT = "causal"
CHECKPOINT = "uno"
RECORDS = "iterations"
DRAFTER = "noise-adapters"
GUARANTEED_TOKENS = 2


@dataclass(frozen=True, kw_only=True)
class Parameters(Drafting):
    """*block* queries a forward: the newest token and block - 1 noise tokens.

    Uno is published at temperature 1, top-p 0.95 and top-k 50, with blocks of 4, 8 and 16.
    """

    policy: Literal["uno-linear"] = "uno-linear"


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:  # noqa: ARG001 (the interface)
    """All drafts, where the free token is the last one that there may be."""
    return block_tokens - 1


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent: the noise too follows from seed and request alone."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    yield from begun(row, parameters)
    while not row.is_over:
        yield from _iteration(row, parameters)


def _iteration(row: Continuation, parameters: Parameters) -> Decoding:
    """A free token and drafts, each drawn from its own law, then as many drafts as hold."""
    said = yield noise_draft(row, parameters.block_tokens(row.facts))
    draft = parameters.probabilities(said.logits)
    free, *drafts = (row.draw(law) for law in draft)
    tree = chain([free, *drafts])
    said = yield verify(row.stored_tokens + 1, tree)
    target = parameters.probabilities(said.logits)
    accepted, token = accept_drawn(drafts, draft[1:], target, row.draw)
    finish(row, [free, *drafts[:accepted], token], tree, accepted=accepted)
