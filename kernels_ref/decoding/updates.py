"""The update rules: what one forward's predictions do to the tokens of one block."""

from dataclasses import dataclass

import numpy as np

from kernels_ref.decoding.query import BoolArray, FloatArray, Prediction
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.sequence import Sequence


def reveal_confident(sequence: Sequence, block: int, said: Prediction, tau_mask: float) -> Update:
    """Masks to tokens: all of probability *tau_mask* or more, for ever; the best one if none is.

    LLaDA-2.0's confidence threshold.
    """
    masked = sequence.is_masked(block)
    ready = masked & (said.probability >= tau_mask)
    revealed = ready if ready.any() else best_of(masked, said.probability)
    edited = np.zeros_like(masked)
    return change(sequence, block, said, ready=ready, revealed=revealed, edited=edited)


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
    return change(sequence, block, said, ready=ready, revealed=revealed, edited=edited)


def best_of(candidates: BoolArray, probability: FloatArray) -> BoolArray:
    """The most probable one of *candidates*, the first of equals; none of none."""
    out = np.zeros_like(candidates)
    if candidates.any():
        out[np.argmax(np.where(candidates, probability, -1.0))] = True
    return out


def change(  # noqa: PLR0913 (what is counted)
    sequence: Sequence,
    block: int,
    said: Prediction,
    *,
    ready: BoolArray,
    revealed: BoolArray,
    edited: BoolArray,
) -> Update:
    """Write what is *said* to the *revealed* and *edited* places; the update that is on record."""
    masked = sequence.is_masked(block)
    tokens = sequence.tokens[sequence.places(block)]
    agreeing = ~masked & sequence.is_answer(block) & (tokens == said.token)
    update = Update(
        masked=int(masked.sum()),
        ready=int(ready.sum()),
        revealed=int(revealed.sum()),
        edited=int(edited.sum()),
        agreeing=int(agreeing.sum()),
    )
    changed = revealed | edited
    tokens[changed] = said.token[changed]
    sequence.record.update(block, update)
    return update


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
        self.readiness = done.ready / done.masked if done.masked else 1.0
        was_finished, self.finished = self.finished, done.masked == 0 and done.edited == 0
        if done.masked == 0 and counts:
            self.mask_free_forwards += 1
            self.frozen = self.mask_free_forwards >= post_edit_steps
        if self.finished and not was_finished:
            sequence.record.finish(self.number)
