"""Confidence threshold, one block at a time (LLaDA-2.0; SDAR's dynamic schedule)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks, prefilled
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.query import Kind
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.updates import reveal_confident

PROMPT = "block-causal"
CHECKPOINT = "serial"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """*tau_mask* is 0.95 in LLaDA-2.0's report, SGLang and multi-block diffusion's table 4."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["single-block"] = "single-block"
    block: Count | None = None
    tau_mask: Threshold = 0.95
    store: Literal["separate", "fused"] = "separate"
    """The KV of a finished block: a forward of its own (SGLang, JetEngine), or beside the first
    denoising of the next block (dInfer), where the last block needs none."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    yield from prefilled(sequence)
    fused = parameters.store == "fused"
    for block in range(sequence.n_blocks):
        sequence.record.admit(block)
        first = block - 1 if fused and block else block
        while sequence.is_masked(block).any():
            kind: Kind = "fused-store" if first < block else "denoise"
            said = yield live_blocks(sequence, first, block + 1, kind=kind, asked_from=block)
            first = block
            reveal_confident(sequence, block, said, parameters.tau_mask)
        sequence.record.finish(block)
        if not fused:
            yield live_blocks(sequence, block, block + 1, kind="store")
        if sequence.retire(block):
            return
