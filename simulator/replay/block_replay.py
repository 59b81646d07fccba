"""BlockReplay: the state that block policies replay on, all requests at once.

A policy's state machine says which blocks are live; what a forward does to them is read off the
trace by `Trajectories`.
"""

from typing import Final

import numpy as np

from simulator.documents import DocumentError, Mistake
from simulator.replay.block_record import KIND, BlockRecord
from simulator.replay.block_requests import BlockRequests
from simulator.replay.block_source import BlockSource
from simulator.replay.trajectories import Trajectories, Updates
from simulator.schedule import BoolArray, FloatArray, IntArray

MOST_LIVES: Final = 16
"""Lives of the longest block, and of one that reveals a mask a forward, without any retirement:
then it goes nowhere. Traces that real decoders left never came to two."""


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
        self.trajectories = Trajectories(source, requests)
        self._waited = 0
        longest = int(np.diff(source.start).max(initial=1))
        self._patience = MOST_LIVES * (longest + self.block_tokens)
        """Forwards since a block retired, and the most there may be."""

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
            self.forward_from_start(rows, "prefill", self.requests.start[rows])

    def forward_from_start(
        self, rows: IntArray, kind: str, tokens: IntArray, *, blocks: int = 0
    ) -> None:
        """A forward of *rows* over their first *tokens*, [rows]; the last *blocks* get logits."""
        zero = np.zeros_like(rows)
        self.record.forward(
            rows,
            np.full_like(rows, KIND[kind]),
            prefix_tokens=zero,
            query_tokens=tokens,
            padded_tokens=tokens,
            logit_rows=zero + blocks * self.block_tokens,
            window_left=zero,
            window_right=zero + blocks,
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
        forward = self.record.count[row]
        done, left_masks = self.trajectories.take(row, block, masked, behind, forward, forced)
        self.masks[row, block] = left_masks
        self.record.update(done)
        return done

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

    def least_in_group(self, values: FloatArray, rows: IntArray) -> FloatArray:
        """The least of *values* [rows] in each row's group, [rows]."""
        if self.groups is self.rows:
            return values
        groups = self.groups[rows]
        least = np.full(self.groups.max() + 1, np.inf)
        np.minimum.at(least, groups, values)
        return least[groups]


def pairs(rows: IntArray, left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """(row, block) of every block from *left* up to *right* of its row, row by row."""
    number = right - left
    first = np.cumsum(number) - number
    block = np.arange(number.sum()) - np.repeat(first, number) + np.repeat(left, number)
    return np.repeat(rows, number), block
