"""Multi-block decoding in a fixed buffer of block slots (MBD, Algorithm 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.asking import live_blocks, prefilled
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.query import Prediction
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.running_set import RunningSet
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.updates import best_of, change

PROMPT = "block-causal"
CHECKPOINT = "multi-block"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Multi-Block Diffusion's table 4 for LLaDA-2; *buffer* is N_buf, *tau_add* 0.9 for code.

    For LLaDA-2.1, *tau_mask* is 0.7 and *tau_edit* 0.5 there; the engine applies 0.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["block-buffer"] = "block-buffer"
    block: Count | None = None
    buffer: Count = 2
    tau_add: Threshold = 0.1
    """Least share of tokens in the last active block that activates the next slot; the paper
    writes above, its engine from this value on, as for *tau_stable*."""
    tau_semi: Threshold = 0.9
    """Least share of tokens in a block that makes it semi-complete."""
    tau_stable: Threshold = 0.0
    """Least stability of the last active block that activates the next slot: with edits the share
    of its tokens that the last forward would write again, otherwise 1 once it is complete."""
    tau_mask: Threshold = 0.95
    """Probability above which masks are revealed (tau_M2T)."""
    tau_edit: Threshold | None = None
    """Probability above which tokens are overwritten (tau_T2T); absent, no token ever is."""
    post_edit_steps: Count = 16
    """Forwards without a mask after which edits are frozen; so many more than a block has places
    are all that it takes part in before its masks are filled and it is frozen. 16 in the code."""
    forced: Literal["semi-complete", "always"] = "semi-complete"
    """Where no mask is above the threshold the best is revealed: behind a semi-complete block only
    (Algorithm 5), or always, as the engine does for models that edit."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """A block that is complete is stored by the next forward; its slot is free for the one after.

    Every forward takes all slots; dummies behind the live blocks are padding. The whole blocks of
    the prompt are prefilled in a forward of their own, where the engine also denoises block 0 once.
    While an end token stands in the answer no slot is activated, and the row is over when those
    that are live are in cache.
    """
    yield from prefilled(sequence)
    blocks = RunningSet(sequence)
    slots = [Slot(number) for number in range(sequence.n_blocks)]
    blocks.add()
    while True:
        # Activate future blocks without changing the shape.
        if _may_activate(blocks, slots, parameters):
            blocks.add()
        if not blocks.live:
            return
        # Decode the static buffer. What the forward sees decides, not what it reveals.
        forced = {block for block in blocks.active if _is_forced(blocks, block, parameters)}
        stored = blocks.first_active
        said = yield live_blocks(
            sequence, blocks.left, blocks.right, kind=blocks.kind, padded_blocks=parameters.buffer
        )
        for block in blocks.active:
            part = said.at(sequence.places(block))
            slots[block].update(sequence, part, parameters, forced=block in forced)
        blocks.mark_to_cache(lambda block: slots[block].ready)
        # Commit the prefix that was to-cache already, and slide the buffer.
        blocks.leave(stored)


def _may_activate(blocks: RunningSet, slots: list["Slot"], parameters: Parameters) -> bool:
    """Whether the first dummy slot becomes active; with nothing live there is no one to ask."""
    if not blocks.may_grow or blocks.live == parameters.buffer:
        return False
    last = blocks.right - 1
    progress, stability = blocks.progress(last), slots[last].stability
    steady = progress >= parameters.tau_add and stability >= parameters.tau_stable
    return steady or not blocks.live


def _is_forced(blocks: RunningSet, block: int, parameters: Parameters) -> bool:
    """Whether a block reveals its best mask where none is above the threshold."""
    return parameters.forced == "always" or blocks.progress(block - 1) >= parameters.tau_semi


@dataclass
class Slot:
    """What is known of a block while it is active."""

    block: int
    forwards: int = 0
    mask_free_forwards: int = 0
    stability: float = 0.0
    """Before the first forward nothing is known, which is not stable."""
    frozen: bool = False
    ready: bool = False
    """Complete, and for models that edit: unchanged by the last forward, or frozen."""

    def update(
        self, sequence: TokenSequence, said: Prediction, parameters: Parameters, *, forced: bool
    ) -> None:
        """One forward, of whose prediction *said* is the block's part."""
        masked = sequence.is_masked(self.block)
        answered = ~masked & sequence.is_answer(self.block)
        self.forwards += 1
        last = self._is_last(parameters, sequence.block_tokens)
        revealed = masked & (last | (said.probability > parameters.tau_mask))
        if forced and not revealed.any():
            revealed = best_of(masked, said.probability)
        edited = np.zeros_like(masked)
        if parameters.tau_edit is not None and not self.frozen:
            differs = sequence.tokens[sequence.places(self.block)] != said.token
            edited = answered & differs & (said.probability > parameters.tau_edit)
        ready = masked & (said.probability >= parameters.tau_mask)
        done = change(sequence, self.block, said, ready=ready, revealed=revealed, edited=edited)
        self.stability = done.agreeing / answered.sum() if answered.any() else 0.0
        self._settle(sequence, done, parameters, last=last)

    def _is_last(self, parameters: Parameters, block_tokens: int) -> bool:
        """Whether masks are filled and tokens frozen whatever the model thinks of them."""
        most_forwards = block_tokens + parameters.post_edit_steps
        return parameters.tau_edit is not None and self.forwards >= most_forwards

    def _settle(
        self, sequence: TokenSequence, done: Update, parameters: Parameters, *, last: bool
    ) -> None:
        """Whether the block, with the last update *done*, is ready to be stored."""
        was_ready = self.ready
        complete = done.masked == done.revealed
        if parameters.tau_edit is None:
            self.ready, self.stability = complete, float(complete)
        else:
            self.mask_free_forwards += done.masked == 0
            self.frozen = last or self.mask_free_forwards >= parameters.post_edit_steps
            unchanged = done.revealed == done.edited == 0
            self.ready = complete and (unchanged or self.frozen)
        if self.ready and not was_ready:
            sequence.record.finish(self.block)
