"""EAGLE-3 with a chain of drafts: a small drafter, token after token, then verification."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_parameters import Drafting
from kernels_ref.decoding.draft_queries import taking_in
from kernels_ref.decoding.draft_tree import chain
from kernels_ref.decoding.query import Prediction, Query
from kernels_ref.decoding.verifying import begun, causal, features_of, verified

PROMPT = "causal"
CHECKPOINT = "eagle3"
RECORDS = "iterations"
DRAFTER = "eagle3"
GUARANTEED_TOKENS = 1


@dataclass(frozen=True, kw_only=True)
class Parameters(Drafting):
    """*block* drafts an iteration (Uno, C.1.2)."""

    policy: Literal["eagle3-linear"] = "eagle3-linear"


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:  # noqa: ARG001 (the interface)
    """All drafts but the one for the last token that there may be."""
    return block_tokens - 1


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """The drafter takes in what the target made of the tokens that were kept."""
    features = features_of((yield from begun(row, parameters)))
    block = parameters.block_tokens(row.facts)
    while not row.is_over:
        drafts = yield from _drafts(row, features, block)
        done = yield from verified(row, chain([row.last, *drafts]), parameters)
        features = done.features


def _drafts(
    row: Continuation, features: torch.Tensor, block: int
) -> Generator[Query, Prediction, list[int]]:
    """The most likely token each time, fed to the drafter with its own last state."""
    said = yield taking_in(row, features)
    drafts = [int(said.token[-1])]
    while len(drafts) < block:
        place = row.stored_tokens + len(drafts) - 1
        said = yield causal("draft", place, drafts[-1:], features=features_of(said)[-1:])
        drafts.append(int(said.token[-1]))
    return drafts
