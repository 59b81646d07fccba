"""Record: what decoding one sequence did, forward by forward and block by block.

Forwards of a sequence are numbered from 0, its prefill included. A block's lists have one entry per
forward that could change it (none that only stored it), all about the state before the update.
"""

from dataclasses import dataclass, field

import numpy as np

from kernels_ref.decoding.query import Kind, Query


@dataclass(frozen=True)
class Update:
    """What one forward found and changed in one block."""

    masked: int
    """Masks before the update."""
    ready: int
    """Of them, those with a probability of at least the threshold that reveals."""
    revealed: int
    edited: int
    agreeing: int
    """Tokens of the answer that were there and are the most likely ones again."""


@dataclass
class ForwardRow:
    """One forward of a sequence."""

    kind: Kind
    prefix_tokens: int
    query_tokens: int
    padded_tokens: int
    logit_rows: int
    window_left: int
    """First live block, and one behind the last; equal where none is."""
    window_right: int
    revealed: int = 0
    edited: int = 0
    committed_tokens: int = 0
    """Output tokens that became final by it: the end token and what follows are none."""


@dataclass
class BlockRow:
    """One block of a sequence; numbers of forwards, -1 where it never came to it."""

    admitted: int
    """The first forward that could contain it."""
    finished: int = -1
    """The forward after which it was complete for the last time."""
    retired: int = -1
    """The forward after which its tokens were final and its place in the window free."""
    masked: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    revealed: list[int] = field(default_factory=list)
    edited: list[int] = field(default_factory=list)
    agreeing: list[int] = field(default_factory=list)


class Record:
    """The rows, as a decoder fills them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.forwards: list[ForwardRow] = []
        self.blocks: list[BlockRow] = []

    def ask(self, query: Query) -> None:
        """A forward with *query* begins."""
        live = [i for i, block in enumerate(self.blocks) if block.retired < 0]
        logit_rows = 0 if query.kind == "prefill" else query.padded - query.asked
        self.forwards.append(
            ForwardRow(
                kind=query.kind,
                prefix_tokens=query.left,
                query_tokens=len(query.tokens),
                padded_tokens=query.padded,
                logit_rows=logit_rows,
                window_left=live[0] if live else len(self.blocks),
                window_right=live[-1] + 1 if live else len(self.blocks),
            )
        )

    def admit(self, block: int) -> None:
        """*block*, the next one, joins the window from the next forward on."""
        if block != len(self.blocks):
            rule = f"blocks are admitted in order: {len(self.blocks)} is next, not {block}"
            raise ValueError(rule)
        self.blocks.append(BlockRow(admitted=len(self.forwards)))

    def update(self, block: int, update: Update) -> None:
        """What the last forward did to *block*."""
        row, forward = self.blocks[block], self.forwards[-1]
        for name in ("masked", "ready", "revealed", "edited", "agreeing"):
            getattr(row, name).append(getattr(update, name))
        forward.revealed += update.revealed
        forward.edited += update.edited

    def finish(self, block: int) -> None:
        """*block* is complete after the last forward; said again if it was re-opened."""
        self.blocks[block].finished = len(self.forwards) - 1

    def retire(self, block: int, committed_tokens: int) -> None:
        """*block* leaves the window after the last forward, with so many output tokens."""
        self.blocks[block].retired = len(self.forwards) - 1
        self.forwards[-1].committed_tokens += committed_tokens

    @property
    def committed_tokens(self) -> int:
        """Output tokens so far."""
        return int(np.sum([row.committed_tokens for row in self.forwards]))
