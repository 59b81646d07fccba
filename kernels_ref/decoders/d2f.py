"""Discrete Diffusion Forcing: a pipeline of blocks behind a prompt that sees all of itself.

The rules are those of the published evaluation code of Discrete Diffusion Forcing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.query import Query
from kernels_ref.decoding.running_set import RunningSet
from kernels_ref.decoding.sequence import Sequence as TokenSequence

PROMPT = "prefix-full"
CHECKPOINT = "d2f"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The published settings for GSM8K; *tau_add* is 0.9 for MBPP and 0.1 for MATH."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["d2f"] = "d2f"
    block: Count | None = None
    tau_add: Threshold = 0.7
    """Least share of tokens in the last block that appends the next one."""
    tau_act: Threshold = 0.95
    """Least share of tokens in a block that activates the one behind it fully."""
    tau_mask: Threshold = 0.9
    """Probability above which masks are revealed (tau_conf)."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """An end token stops appending and nothing else; blocks that are live are decoded to the end.

    The KV of the blocks that finish last is never stored.
    """
    blocks = RunningSet(sequence)
    prompt_in_cache = False
    while True:
        if blocks.progress(blocks.right - 1) >= parameters.tau_add and blocks.may_grow:
            blocks.add()
        if not blocks.active:
            blocks.leave(blocks.right)
            return
        # Once activated a block stays so, because no token ever becomes a mask again.
        activated = {b for b in blocks.active if blocks.progress(b - 1) >= parameters.tau_act}
        stored = blocks.first_active
        if prompt_in_cache:
            said = yield live_blocks(sequence, blocks.left, blocks.right)
        else:
            said = yield _prompt_and_block(sequence)
        prompt_in_cache = True
        for block in blocks.active:
            blocks.accept(block, said, parameters.tau_mask, forced=block in activated)
        blocks.mark_to_cache()
        blocks.leave(stored)


def _prompt_and_block(sequence: TokenSequence) -> Query:
    """The prompt, which sees all of itself and gets no logits, and block 0 behind it."""
    prompt, end = sequence.first_start, sequence.start(1)
    horizon = np.repeat([prompt, end], [prompt, end - prompt])
    return Query("denoise", 0, sequence.tokens[:end].copy(), horizon, end, asked=prompt)
