"""The running set: blocks that are decoded together, and leave from the left once stored.

A block is first active, then to-cache, then in-cache (Multi-Block Diffusion, appendix C.3; Discrete
Diffusion Forcing has the same states). To-cache blocks ride in the next forward with their final
tokens as input, so that their KV is exact, and leave with it.
"""

from collections.abc import Callable

import numpy as np

from kernels_ref.decoding.query import Kind, Prediction
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.decoding.updates import draft_and_edit


class RunningSet:
    """Blocks from *left* up to *right*; those before *first_active* are to-cache, others active."""

    def __init__(self, sequence: Sequence) -> None:
        """Begin with no block."""
        self.sequence = sequence
        self.left = self.first_active = self.right = 0

    @property
    def live(self) -> int:
        """Blocks that are active or to-cache."""
        return self.right - self.left

    @property
    def active(self) -> range:
        """The active blocks."""
        return range(self.first_active, self.right)

    @property
    def kind(self) -> Kind:
        """What the next forward is for: where no block is active it stores only."""
        return "denoise" if self.active else "store"

    @property
    def may_grow(self) -> bool:
        """Whether there is a next block, and no end token stands in the answer yet."""
        answer = self.sequence.tokens[self.sequence.prompt_tokens :]
        ended = np.isin(answer, self.sequence.facts.end_tokens).any()
        return self.right < self.sequence.n_blocks and not ended

    def progress(self, block: int) -> float:
        """Share of a block that is no mask, tokens of the prompt included; 1 before block 0."""
        return 1.0 if block < 0 else float((~self.sequence.is_masked(block)).mean())

    def add(self) -> None:
        """The next block becomes active, all masks but for what the prompt has in it."""
        self.sequence.record.admit(self.right)
        self.right += 1

    def accept(self, block: int, said: Prediction, tau_mask: float, *, forced: bool) -> None:
        """Masks above *tau_mask* to tokens, for ever; the best one if there is none and *forced*.

        *said* may be about more than the block.
        """
        sequence = self.sequence
        part = said.at(sequence.places(block))
        done = draft_and_edit(
            sequence, block, part, tau_mask=tau_mask, tau_edit=1.0, forced=forced, editing=False
        )
        if 0 < done.masked == done.revealed:
            sequence.record.finish(block)

    def is_complete(self, block: int) -> bool:
        """Whether a block has no mask."""
        return not self.sequence.is_masked(block).any()

    def mark_to_cache(self, ready: Callable[[int], bool] | None = None) -> None:
        """From the left on: active blocks that are *ready* (complete) behind none that is not."""
        ready = self.is_complete if ready is None else ready
        while self.first_active < self.right and ready(self.first_active):
            self.first_active += 1

    def leave(self, until: int) -> None:
        """Blocks before *until* are in cache."""
        for block in range(self.left, until):
            self.sequence.retire(block)
        self.left = until
