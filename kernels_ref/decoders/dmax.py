"""DMax: soft tokens revealed from the left, all of them open to change until the block ends."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks, prefilled
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.query import BoolArray, FloatArray, Prediction, Query
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.updates import change

PROMPT = "block-causal"
CHECKPOINT = "self-correcting"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """*tau_mask* is 0.5 in DMax's script for mathematics, 0.65 for code in MBD's table 4."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["dmax"] = "dmax"
    block: Count | None = None
    tau_mask: Threshold = 0.5
    """Least probability of the masks that are revealed together."""
    tau_stop: Threshold = 0.9
    """Least probability at all places that ends the block, once it has no mask: where *tau_mask* is
    larger, DMax's code would end it with masks in it."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """Tokens become hard when their block ends, so it is stored beside the next one's first step.

    The KV of the last block is never stored.
    """
    yield from prefilled(sequence)
    for block in range(sequence.n_blocks):
        sequence.record.admit(block)
        yield from _denoise(sequence, block, parameters)
        sequence.record.finish(block)
        if sequence.retire(block):
            return


def _denoise(sequence: TokenSequence, block: int, parameters: Parameters) -> Decoding:
    """At most as many steps as places: each reveals a mask at least, so none is left then."""
    query = _opening(sequence, block)
    active = sequence.is_masked(block)
    for _ in range(sequence.block_tokens):
        said = yield query
        done = _step(sequence, block, said, parameters.tau_mask)
        if done.masked == done.revealed:
            sure = bool((said.probability[active] >= parameters.tau_stop).all())
            if sure or done.revealed == done.edited == 0:
                return
        soft = active & ~sequence.is_masked(block)
        query = replace(
            live_blocks(sequence, block, block + 1),
            hardness=np.where(soft, said.probability, 1.0),
        )


def _opening(sequence: TokenSequence, block: int) -> Query:
    """The block behind the one before it, whose hard tokens are stored and get no logits."""
    if block == 0:
        return live_blocks(sequence, 0, 1)
    return live_blocks(sequence, block - 1, block + 1, kind="fused-store", asked_from=block)


def _step(sequence: TokenSequence, block: int, said: Prediction, tau_mask: float) -> Update:
    """Masks from the left up to the first unsure one, the leftmost at least; tokens all anew."""
    masked = sequence.is_masked(block)
    there = ~masked & sequence.is_answer(block)
    differs = sequence.tokens[sequence.places(block)] != said.token
    return change(
        sequence,
        block,
        said,
        ready=masked & (said.probability >= tau_mask),
        revealed=_run(masked, said.probability, tau_mask),
        edited=there & differs,
    )


def _run(masked: BoolArray, probability: FloatArray, tau_mask: float) -> BoolArray:
    """The masks before the first one less probable than *tau_mask*; always the leftmost."""
    places = np.flatnonzero(masked)
    unsure = np.flatnonzero(probability[places] < tau_mask)
    count = max(int(unsure[0]), 1) if len(unsure) else len(places)
    run = np.zeros_like(masked)
    run[places[:count]] = True
    return run
