"""Naive multi-block decoding: a running set that grows and shrinks (MBD, Algorithm 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks, prefilled
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.running_set import RunningSet
from kernels_ref.decoding.sequence import Sequence as TokenSequence

PROMPT = "block-causal"
CHECKPOINT = "multi-block"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Thresholds of Multi-Block Diffusion's table 4 for LLaDA-2; *tau_add* is 0.9 for code."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["multi-block"] = "multi-block"
    block: Count | None = None
    tau_add: Threshold = 0.1
    """Least share of tokens in the last block that appends the next one; the paper writes above,
    its engine from this value on."""
    tau_semi: Threshold = 0.9
    """Least share of tokens in a block that lets the one behind it reveal its best mask."""
    tau_mask: Threshold = 0.95
    """Probability above which masks are revealed (tau_M2T)."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """An end token stops appending; what is live then is decoded and stored.

    Algorithm 4 stores a block in the forward that completes it, whose input still had masks. Its
    engine stores it in the next one, and so it is here.
    """
    yield from prefilled(sequence)
    blocks = RunningSet(sequence)
    blocks.add()
    while blocks.live:
        if blocks.progress(blocks.right - 1) >= parameters.tau_add and blocks.may_grow:
            blocks.add()
        # What the forward sees decides, not what it reveals.
        behind = {b for b in blocks.active if blocks.progress(b - 1) >= parameters.tau_semi}
        stored = blocks.first_active
        said = yield live_blocks(sequence, blocks.left, blocks.right, kind=blocks.kind)
        for block in blocks.active:
            blocks.accept(block, said, parameters.tau_mask, forced=block in behind)
        blocks.mark_to_cache()
        blocks.leave(stored)
