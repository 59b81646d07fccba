"""DFlash: masks filled at once by a drafter that the target's features feed, then verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import Drafting
from kernels_ref.decoding.draft_queries import mask_draft
from kernels_ref.decoding.draft_tree import chain
from kernels_ref.decoding.verifying import begun, features_of, verified

PROMPT = "causal"
CHECKPOINT = "dflash"
RECORDS = "iterations"
DRAFTER = "dflash"
GUARANTEED_TOKENS = 1


@dataclass(frozen=True, kw_only=True)
class Parameters(Drafting):
    """*block* queries a forward: the newest token and block - 1 masks, published with 16."""

    policy: Literal["dflash"] = "dflash"


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:  # noqa: ARG001 (the interface)
    """All drafts but the one for the last token that there may be."""
    return block_tokens - 2


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """Drafts are the most likely tokens, whatever the temperature."""
    features = features_of((yield from begun(row, parameters)))
    block = parameters.block_tokens(row.facts)
    while not row.is_over:
        said = yield mask_draft(row, block, features=features)
        tree = chain([row.last, *said.token.tolist()])
        done = yield from verified(row, tree, parameters)
        features = done.features
