"""BlockReplay: the state that block policies replay on, all requests at once.

A policy's state machine says which blocks are live; what a forward does to them is read off the
trace. A block follows its recorded trajectory while it meets there what it has now: as many masks
of its own, and as many in the block before it. Where it meets something else it goes on from a
recorded local step, of a block of the same role, that comes nearest to that. With the parameters of
the capture nothing else is ever met, so every forward is the captured one: exact replay is not
another program but the case in which the nearest step is the recorded one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulator.documents import DocumentError, Mistake
from simulator.replay.block_record import KIND, BlockRecord
from simulator.replay.block_requests import NO_BLOCK, BlockRequests
from simulator.replay.block_source import BlockSource
from simulator.replay.nearest_steps import NONE, NearestSteps
from simulator.schedule import BoolArray, FloatArray, IntArray

OFF: Final = -1
"""A block that follows no recorded trajectory."""
MOST_LIVES: Final = 16
"""Lives of the longest block, and of one that reveals a mask a forward, without any retirement:
then it goes nowhere. Traces that real decoders left never came to two."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What a forward found and changed in the blocks that it updated; all arrays are [blocks]."""

    row: IntArray
    block: IntArray
    masked: IntArray
    ready: IntArray
    revealed: IntArray
    edited: IntArray
    agreeing: IntArray

    @property
    def readiness(self) -> FloatArray:
        """Share of the masks that were ready; 1 where there was none (FlowBlock, equation 2)."""
        return np.where(self.masked > 0, self.ready / np.maximum(self.masked, 1), 1.0)


class BlockReplay:
    """Requests under replay; rows are their numbers."""

    def __init__(
        self,
        source: BlockSource,
        requests: BlockRequests,
        *,
        groups: IntArray | None = None,
        is_counterfactual: bool = False,
    ) -> None:
        """*groups* [requests] are the batches whose rows share state; each row its own when absent.

        *is_counterfactual* tells that parameters differ from the captured ones.
        """
        self.source, self.requests = source, requests
        self.is_counterfactual = is_counterfactual
        self.rows = np.arange(requests.n_requests)
        self.groups = self.rows if groups is None else groups
        self.masks = requests.masks.copy()
        self.record = BlockRecord(*requests.masks.shape)
        self._nearest = NearestSteps(source)
        self._next = np.full_like(requests.recorded, OFF)
        begun = requests.recorded != NO_BLOCK
        self._next[begun] = source.start[requests.recorded[begun]]
        self._end = np.full_like(self._next, OFF)
        self._end[begun] = source.start[requests.recorded[begun] + 1]
        self._waited = 0
        longest = int(np.diff(source.start).max(initial=1))
        self._patience = MOST_LIVES * (longest + self.block_tokens)
        """Forwards since a block retired, and the most there may be."""
        self.followed = self.drawn = 0
        self.apart = 0
        """Local steps that were recorded for the block, those drawn from others, and the sum of
        the masks by which the latter met something else."""

    @property
    def block_tokens(self) -> int:
        """Places of a block."""
        return self.source.block_tokens

    def starts(self, rows: IntArray, block: IntArray) -> IntArray:
        """Absolute places of blocks."""
        return self.requests.start[rows] + block * self.block_tokens

    def prefill(self) -> None:
        """What lies before block 0, in a forward by itself; nothing for a prompt without that."""
        rows = self.rows[self.requests.start > 0]
        if len(rows):
            zero, tokens = np.zeros_like(rows), self.requests.start[rows]
            self.record.forward(
                rows,
                np.full_like(rows, KIND["prefill"]),
                prefix_tokens=zero,
                query_tokens=tokens,
                padded_tokens=tokens,
                logit_rows=zero,
                window_left=zero,
                window_right=zero,
            )

    def forward(  # noqa: PLR0913 (what a forward is)
        self,
        rows: IntArray,
        left: IntArray,
        right: IntArray,
        *,
        kind: IntArray | str = "denoise",
        slots: int = 0,
        stored: IntArray | int = 0,
        window_left: IntArray | None = None,
    ) -> None:
        """A forward of *rows* over their blocks from *left* up to *right*, all arrays [rows].

        A row takes the place of *slots* blocks at least. The first *stored* blocks get no logits.
        The window begins at *left* unless at *window_left*. Raises DocumentError where no block has
        retired for long.
        """
        self._waited += 1
        if self._waited > self._patience:
            rule = f"has no block that ends, in {self._patience} forwards of these settings"
            raise DocumentError(self.source.trace.manifest.name, [Mistake("", rule)])
        tokens = self.block_tokens
        query = (right - left) * tokens
        padded = np.maximum(query, slots * tokens)
        self.record.forward(
            rows,
            np.full_like(rows, KIND[kind]) if isinstance(kind, str) else kind,
            prefix_tokens=self.starts(rows, left),
            query_tokens=query,
            padded_tokens=padded,
            logit_rows=padded - stored * tokens,
            window_left=left if window_left is None else window_left,
            window_right=right,
        )

    def update(
        self, rows: IntArray, left: IntArray, right: IntArray, forced: BoolArray | None = None
    ) -> Updates:
        """The last forward's changes to the blocks from *left* up to *right* of *rows*.

        Where given, *forced* [blocks, row by row] are the blocks that reveal a mask in any case;
        the others reveal none that is not ready. Otherwise they do as recorded.
        """
        row, block = pairs(rows, left, right)
        masked = self.masks[row, block]
        behind = np.where(block > 0, self.masks[row, np.maximum(block - 1, 0)], 0)
        step = self._steps(row, block, masked, behind)
        counts = self._counts(step, masked, behind, forced)
        self.masks[row, block] = self._masks_after(row, block, step, counts)
        self.record.update(row, block, **counts)
        return Updates(row, block, **counts)

    def _masks_after(
        self, row: IntArray, block: IntArray, step: IntArray, counts: dict[str, IntArray]
    ) -> IntArray:
        """Masks that are left, which a trajectory that was followed says itself.

        It differs from what was revealed where tokens may become noise again.
        """
        source, after = self.source, self._next[row, block]
        left = counts["masked"] - counts["revealed"]
        place, follows = np.where(step != NONE, step, 0), step != NONE
        follows &= after < self._end[row, block]
        for name in ("masked", "revealed"):
            follows &= getattr(source, name)[place] == counts[name]
        return np.where(follows, source.masked[np.where(follows, after, 0)], left)

    def _steps(
        self, row: IntArray, block: IntArray, masked: IntArray, behind: IntArray
    ) -> IntArray:
        """The recorded local step that each block takes; NONE where nothing is to happen."""
        source, step = self.source, self._next[row, block]
        going = (step != OFF) & (step < self._end[row, block])
        place = np.where(going, step, 0)
        meets = going & (source.masked[place] == masked) & (source.behind[place] == behind)
        # A block that has come to its recorded end without a mask has settled.
        settled = (step != OFF) & ~going & (masked == 0)
        off = ~meets & ~settled
        taken = np.where(settled, NONE, place)
        if off.any():
            taken[off] = self._drawn(row[off], block[off], masked[off], behind[off])
        self.followed += int(meets.sum())
        moved = taken != NONE
        self._next[row[moved], block[moved]] = taken[moved] + 1
        self._end[row[off & moved], block[off & moved]] = source.start[
            source.block_of_step[taken[off & moved]] + 1
        ]
        return taken

    def _drawn(
        self, row: IntArray, block: IntArray, masked: IntArray, behind: IntArray
    ) -> IntArray:
        """Local steps of other blocks, each drawn by request, block and forward."""
        requests = self.requests
        key = (*requests.keys[:, row], block, self.record.count[row])
        drawn = self._nearest.draw(requests.roles[row, block], masked, behind, *key)
        self.drawn += len(drawn)
        found = drawn[drawn != NONE]
        self.apart += int(
            np.abs(self.source.masked[found] - masked[drawn != NONE]).sum()
            + np.abs(self.source.behind[found] - behind[drawn != NONE]).sum()
        )
        return drawn

    def _counts(
        self, step: IntArray, masked: IntArray, behind: IntArray, forced: BoolArray | None
    ) -> dict[str, IntArray]:
        """The counts of the recorded steps, in proportion where masks were not as many."""
        source, there = self.source, step != NONE
        place = np.where(there, step, 0)
        recorded = np.maximum(source.masked[place], 1)

        def in_proportion(values: IntArray) -> IntArray:
            share = np.rint(values[place] * masked / recorded).astype(np.int64)
            return np.where(there, np.clip(share, 0, masked), 0)

        ready, revealed = in_proportion(source.ready), in_proportion(source.revealed)
        # Whoever revealed a mask reveals one of few as well, and so does a leading block that is
        # in surroundings which the trace has not: nothing stalls.
        strange = (source.masked[place] != masked) | (source.behind[place] != behind)
        some = (source.revealed[place] > 0) | (strange & (behind == 0))
        some &= there & (masked > 0)
        revealed = np.where(some, np.maximum(revealed, 1), revealed)
        if forced is not None:
            # More than one mask at once is not forced by this rule.
            unsure = (ready == 0) & (revealed <= 1)
            revealed = np.where(unsure, (forced & (masked > 0)).astype(np.int64), revealed)
        return {
            "masked": masked,
            "ready": ready,
            "revealed": revealed,
            "edited": np.where(there, source.edited[place], 0),
            "agreeing": np.where(there, source.agreeing[place], 0),
        }

    def has_ended(self, done: Updates) -> BoolArray:
        """Whether the updated blocks have come to the end of what is recorded of them, [blocks]."""
        at = done.row, done.block
        ended: BoolArray = (self._next[at] >= self._end[at]) & (done.masked == done.revealed)
        return ended

    def admit(self, rows: IntArray, block: IntArray) -> None:
        """Blocks become live."""
        self.record.admit(rows, block)

    def finish(self, rows: IntArray, block: IntArray) -> None:
        """Blocks are complete after the last forward."""
        self.record.finish(rows, block)

    def retire(self, rows: IntArray, block: IntArray) -> BoolArray:
        """Blocks become final; whether their requests are over with them, [rows]."""
        requests = self.requests
        self._waited *= not len(rows)
        begin, end = self.starts(rows, block), self.starts(rows, block + 1)
        answer = requests.prompt_tokens[rows]
        last_place = answer + requests.output_tokens[rows]
        committed = np.minimum(end, last_place) - np.maximum(begin, answer)
        self.record.retire(rows, block, np.maximum(committed, 0))
        over: BoolArray = (block == requests.last[rows]) | (block + 1 == requests.n_blocks[rows])
        return over

    def has_room_after(self, rows: IntArray, right: IntArray) -> BoolArray:
        """Whether there is a next block while no end token stands in the answer, [rows].

        When an end token came to stand is known of captured requests by the blocks that were
        admitted. A replay under other parameters takes it for standing once the block that it is in
        has its first token: ends are followed by ends, which models are surest of.
        """
        requests = self.requests
        if requests.is_captured and not self.is_counterfactual:
            admitted: BoolArray = right < requests.most_blocks[rows]
            return admitted
        last = np.minimum(requests.last[rows], requests.masks.shape[1] - 1)
        left_over = self.masks[rows, last]
        begun = np.where(last == 0, left_over == 0, left_over < requests.masks[rows, last])
        stands = (requests.seen_end[rows] == 1) & (begun | (right > requests.last[rows] + 1))
        room: BoolArray = (right < requests.n_blocks[rows]) & ~stands
        return room

    def progress(self, rows: IntArray, block: IntArray) -> FloatArray:
        """Share of blocks that is no mask, tokens of the prompt included; 1 before block 0."""
        left = np.where(block < 0, 0, self.masks[rows, np.maximum(block, 0)])
        return 1.0 - left / self.block_tokens

    def in_group(self, values: FloatArray, rows: IntArray, *, least: bool) -> FloatArray:
        """The least (or the largest) of *values* [rows] in each row's group, [rows]."""
        if self.groups is self.rows:
            return values
        groups = self.groups[rows]
        extreme = np.full(self.groups.max() + 1, np.inf if least else -np.inf)
        (np.minimum if least else np.maximum).at(extreme, groups, values)
        return extreme[groups]


def pairs(rows: IntArray, left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """(row, block) of every block from *left* up to *right* of its row, row by row."""
    number = right - left
    first = np.cumsum(number) - number
    block = np.arange(number.sum()) - np.repeat(first, number) + np.repeat(left, number)
    return np.repeat(rows, number), block
