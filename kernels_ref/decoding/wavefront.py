"""The wavefront: a window [left, right) of live blocks, per row or shared by a batch."""

from collections.abc import Sequence
from typing import Protocol

from kernels_ref.decoding.asking import live_blocks, prefill, prefilled
from kernels_ref.decoding.batch import Decoding, Group
from kernels_ref.decoding.query import Prediction, Query
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.updates import EditedBlock


class Wavefront(Protocol):
    """The parameters of gated wavefront decoding; see `decoders.gwd`."""

    @property
    def window(self) -> int:
        """Most live blocks, W."""

    @property
    def theta_spawn(self) -> float:
        """Least readiness of the frontier that admits the next block."""

    @property
    def tau_mask(self) -> float:
        """Probability above which masks are revealed."""

    @property
    def tau_edit(self) -> float:
        """Probability above which tokens are overwritten."""

    @property
    def post_edit_steps(self) -> int:
        """Forwards without a mask after which edits are frozen."""

    @property
    def full_window(self) -> bool:
        """Whether W blocks' slots are taken always."""

    @property
    def forced(self) -> str:
        """Either "every" or "leftmost"."""

    @property
    def post_edit_counts(self) -> str:
        """Either "own" or "leftmost"."""


class Row:
    """One sequence's live blocks."""

    def __init__(self, sequence: TokenSequence, parameters: Wavefront) -> None:
        """Block 0 is admitted unconditionally."""
        self.sequence, self._parameters = sequence, parameters
        self.left = 0
        self.blocks: list[EditedBlock] = []
        self.over = False

    @property
    def right(self) -> int:
        """One behind the last live block."""
        return self.left + len(self.blocks)

    def admit(self) -> None:
        """The next block joins."""
        self.sequence.record.admit(self.right)
        self.blocks.append(EditedBlock(self.right))

    def query(self) -> Query:
        """All live blocks, in the slots of the whole window where it is shape-stable."""
        slots = self._parameters.window if self._parameters.full_window else None
        return live_blocks(self.sequence, self.left, self.right, padded_blocks=slots)

    def update(self, prediction: Prediction) -> None:
        """Equation 1 for every live block, each from its own logits."""
        settings = self._parameters
        for block in self.blocks:
            leads = block.number == self.left
            block.update(
                self.sequence,
                prediction,
                tau_mask=settings.tau_mask,
                tau_edit=settings.tau_edit,
                post_edit_steps=settings.post_edit_steps,
                forced=leads or settings.forced == "every",
                counts=leads or settings.post_edit_counts == "own",
            )

    def retire(self) -> None:
        """The leftmost block is final: its KV is that of the forward that changed nothing."""
        self.blocks.pop(0)
        self.over = self.sequence.retire(self.left)
        self.left += 1

    @property
    def leads_finished(self) -> bool:
        """Whether the leftmost block is locally finished."""
        return bool(self.blocks) and self.blocks[0].finished

    @property
    def readiness(self) -> float:
        """Of the frontier block, equation 2; 1 where it has retired."""
        return self.blocks[-1].readiness if self.blocks else 1.0

    @property
    def may_grow(self) -> bool:
        """Whether there is a next block and room for it."""
        return len(self.blocks) < self._parameters.window and self.right < self.sequence.n_blocks


def packed_row(sequence: TokenSequence, parameters: Wavefront) -> Decoding:
    """Algorithm 1. At most one block is admitted per forward: a new one has no logits yet."""
    yield from prefilled(sequence)
    row = Row(sequence, parameters)
    row.admit()
    while True:
        row.update((yield row.query()))
        while row.leads_finished:
            row.retire()
            if row.over:
                return
        if row.may_grow and row.readiness >= parameters.theta_spawn:
            row.admit()


def synchronous(sequences: Sequence[TokenSequence], parameters: Wavefront) -> Group:
    """All rows share the window. A row that is over counts as finished and wholly ready."""
    prompts = {i: query for i, s in enumerate(sequences) if (query := prefill(s)) is not None}
    if prompts:
        yield prompts
    rows = {i: Row(sequence, parameters) for i, sequence in enumerate(sequences)}
    for row in rows.values():
        row.admit()
    while True:
        answers = yield {i: row.query() for i, row in rows.items()}
        for i, prediction in answers.items():
            rows[i].update(prediction)
        while rows and all(row.leads_finished for row in rows.values()):
            for row in rows.values():
                row.retire()
            rows = {i: row for i, row in rows.items() if not row.over}
        if not rows:
            return
        growing = [row for row in rows.values() if row.may_grow]
        if growing and min(row.readiness for row in rows.values()) >= parameters.theta_spawn:
            for row in growing:
                row.admit()
