"""Autoregression: one token a forward."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, Strict

from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.draft_tree import chain
from kernels_ref.decoding.sampling import Sampling
from kernels_ref.decoding.verifying import begun, verified

PROMPT = "causal"
CHECKPOINT = "autoregressive"
RECORDS = "iterations"
DRAFTER = None
GUARANTEED_TOKENS = 1


@dataclass(frozen=True, kw_only=True)
class Parameters(Sampling):
    """Its *block* is the one token that a forward is about, and nothing to choose."""

    policy: Literal["ar"] = "ar"
    block: Annotated[int, Strict(), Field(ge=1, le=1)] = 1


def extra_tokens(parameters: Parameters, block_tokens: int) -> int:  # noqa: ARG001 (the interface)
    """None: nothing is drafted."""
    return 0


def decode(sequences: Sequence[Continuation], parameters: Parameters) -> Group:
    """Rows are independent."""
    parameters.check(sequences[0].facts)
    return independent([_decode(row, parameters) for row in sequences])


def _decode(row: Continuation, parameters: Parameters) -> Decoding:
    """A verification with nothing to verify."""
    yield from begun(row, parameters)
    while not row.is_over:
        yield from verified(row, chain([row.last]), parameters)
