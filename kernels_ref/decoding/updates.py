"""The update rules: what one forward's predictions do to the tokens of one block."""

from dataclasses import dataclass

import numpy as np

from kernels_ref.decoding.query import BoolArray, FloatArray, Prediction
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.sequence import Sequence


def reveal_confident(
    sequence: Sequence, block: int, said: Prediction, tau_mask: float, *, forced: bool = True
) -> Update:
    """Masks to tokens: all of probability *tau_mask* or more, for ever.

    If there is none, the single best one where *forced*. LLaDA-2.0's confidence threshold.
    """
    masked = sequence.is_masked(block)
    ready = masked & (said.probability >= tau_mask)
    revealed = ready if ready.any() or not forced else best_of(masked, said.probability)
    update = count(sequence, block, said, ready=ready, revealed=revealed)
    write(sequence, block, said, revealed)
    return update


def draft_and_edit(  # noqa: PLR0913 (the rule's inputs)
    sequence: Sequence,
    block: int,
    said: Prediction,
    *,
    tau_mask: float,
    tau_edit: float,
    forced: bool = True,
    editing: bool = True,
) -> Update:
    """Masks to tokens above *tau_mask*, tokens to other tokens above *tau_edit* (FlowBlock, eq. 1).

    If no mask qualifies the best one is revealed where *forced*. Tokens of the prompt stay, and
    without *editing* all tokens do. Readiness counts from *tau_mask* on (equation 2 has >=).
    """
    places = sequence.places(block)
    current = sequence.tokens[places]
    masked = sequence.is_masked(block)
    revealed = masked & (said.probability > tau_mask)
    if forced and not revealed.any():
        revealed = best_of(masked, said.probability)
    differs = ~masked & sequence.is_answer(block) & (current != said.token)
    edited = differs & (said.probability > tau_edit) & editing
    ready = masked & (said.probability >= tau_mask)
    update = count(sequence, block, said, ready=ready, revealed=revealed, edited=edited)
    write(sequence, block, said, revealed | edited)
    return update


def best_of(candidates: BoolArray, probability: FloatArray) -> BoolArray:
    """The most probable one of *candidates*, the first of equals; none of none."""
    out = np.zeros_like(candidates)
    if candidates.any():
        out[np.argmax(np.where(candidates, probability, -1.0))] = True
    return out


def count(  # noqa: PLR0913 (what is counted)
    sequence: Sequence,
    block: int,
    said: Prediction,
    *,
    ready: BoolArray,
    revealed: BoolArray,
    edited: BoolArray | None = None,
) -> Update:
    """The record of an update that is about to be written."""
    masked = sequence.is_masked(block)
    there = ~masked & sequence.is_answer(block)
    agreeing = there & (sequence.tokens[sequence.places(block)] == said.token)
    return Update(
        masked=int(masked.sum()),
        ready=int(ready.sum()),
        revealed=int(revealed.sum()),
        edited=0 if edited is None else int(edited.sum()),
        agreeing=int(agreeing.sum()),
    )


def write(sequence: Sequence, block: int, said: Prediction, changed: BoolArray) -> None:
    """Put what is *said* at the *changed* places of a block."""
    tokens = sequence.tokens[sequence.places(block)]
    tokens[changed] = said.token[changed]


@dataclass
class EditedBlock:
    """A block under `draft_and_edit`: how ready it is, and whether it is locally finished.

    Finished: it had no mask, and nothing changed. After *post_edit_steps* forwards without a mask
    the edits are frozen, and one more forward leaves the KV of what then stands.
    """

    number: int
    readiness: float = 0.0
    """Share of the masks before the last update that were ready; 1 where there was none."""
    finished: bool = False
    mask_free_forwards: int = 0
    frozen: bool = False

    def update(  # noqa: PLR0913 (the rule's inputs)
        self,
        sequence: Sequence,
        prediction: Prediction,
        *,
        tau_mask: float,
        tau_edit: float,
        post_edit_steps: int,
        forced: bool = True,
        counts: bool = True,
    ) -> None:
        """One forward. The post-edit budget is spent only where it *counts*."""
        done = draft_and_edit(
            sequence,
            self.number,
            prediction.at(sequence.places(self.number)),
            tau_mask=tau_mask,
            tau_edit=tau_edit,
            forced=forced,
            editing=not self.frozen,
        )
        sequence.record.update(self.number, done)
        self.readiness = done.ready / done.masked if done.masked else 1.0
        was_finished, self.finished = self.finished, done.masked == 0 and done.edited == 0
        if done.masked == 0 and counts:
            self.mask_free_forwards += 1
            self.frozen = self.mask_free_forwards >= post_edit_steps
        if self.finished and not was_finished:
            sequence.record.finish(self.number)
