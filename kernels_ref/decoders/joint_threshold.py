"""Joint threshold: masks to tokens and tokens to tokens, one block at a time (LLaDA-2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks, prefilled
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.query import Kind
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.updates import EditedBlock

PROMPT = "block-causal"
CHECKPOINT = "self-correcting"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Thresholds of LLaDA-2.1's quality mode; its speed mode is 0.5 and 0."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["joint-threshold"] = "joint-threshold"
    block: Count | None = None
    tau_mask: Threshold = 0.7
    tau_edit: Threshold = 0.5
    post_edit_steps: Count = 16
    """Forwards without a mask after which edits are frozen (S_pe)."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """The forward that changes nothing had the final tokens as input, so it has stored the KV."""
    yield from prefilled(sequence)
    for number in range(sequence.n_blocks):
        sequence.record.admit(number)
        block = EditedBlock(number)
        while not block.finished:
            kind: Kind = "store" if block.frozen else "denoise"
            said = yield live_blocks(sequence, number, number + 1, kind=kind)
            block.update(
                sequence,
                said,
                tau_mask=parameters.tau_mask,
                tau_edit=parameters.tau_edit,
                post_edit_steps=parameters.post_edit_steps,
            )
        if sequence.retire(number):
            return
