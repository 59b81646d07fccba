"""Linear self-speculation: the target fills masks with adapters on, and verifies without them.

As Nemotron-Labs-Diffusion decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import Drafting
from kernels_ref.decoding.draft_queries import mask_draft
from kernels_ref.decoding.draft_tree import chain
from kernels_ref.decoding.verifying import begun, verified

PROMPT = "causal"
CHECKPOINT = "self-speculation"
RECORDS = "iterations"
DRAFTER = "mask-adapters"
GUARANTEED_TOKENS = 1


@dataclass(frozen=True, kw_only=True)
class Parameters(Drafting):
    """*block* queries a forward: the newest token and block - 1 masks, published with 32."""

    policy: Literal["self-speculation"] = "self-speculation"


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:  # noqa: ARG001 (the interface)
    """All drafts but the one for the last token that there may be."""
    return block_tokens - 2


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """The KV that the draft leaves is written again by the verification at the same places."""
    yield from begun(row, parameters)
    block = parameters.block_tokens(row.facts)
    while not row.is_over:
        said = yield mask_draft(row, block, adapted=True)
        yield from verified(row, chain([row.last, *said.token.tolist()]), parameters)
