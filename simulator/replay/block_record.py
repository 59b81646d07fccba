"""BlockRecord: what replayed requests did, forward by forward and block by block.

The columns are those of a captured trace (`traces.block_tables`), so that the two compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simulator.replay.trajectories import Updates
from simulator.schedule import IntArray
from traces.block_tables import KINDS, LOCAL_LISTS

ABSENT: Final = -1
COUNTS: Final = (
    "prefix_tokens",
    "query_tokens",
    "padded_tokens",
    "logit_rows",
    "window_left",
    "window_right",
)
CHANGES: Final = ("revealed", "edited", "committed_tokens")


@dataclass(frozen=True, eq=False)
class BlockTables:
    """Flat columns, in the order of requests, and within one of their forwards or blocks."""

    first_step: IntArray
    """[requests + 1], the first forward of each request."""
    steps: Mapping[str, IntArray]
    """`kind` (the place in `traces.block_tables.KINDS`) and the other columns of `steps`."""
    blocks: Mapping[str, IntArray]
    """`request`, `block`, `admitted`, `finished`, `retired` of every block that was admitted."""
    first_local: IntArray
    """[blocks + 1], the first local step of each block."""
    local_steps: Mapping[str, IntArray]
    """Columns of LOCAL_LISTS, one list behind the other."""


@dataclass
class BlockRecord:
    """Filled forward by forward for all rows at once; a row that waits is absent from it."""

    n_rows: int
    n_blocks: int
    forwards: list[dict[str, IntArray]] = field(default_factory=list)
    updates: list[dict[str, IntArray]] = field(default_factory=list)
    count: IntArray = field(init=False)
    """[rows], forwards so far."""
    life: dict[str, IntArray] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.count = np.zeros(self.n_rows, dtype=np.int64)
        shape = (self.n_rows, self.n_blocks)
        names = ("admitted", "finished", "retired")
        self.life = {name: np.full(shape, ABSENT, dtype=np.int64) for name in names}

    def forward(self, rows: IntArray, kind: IntArray, **counts: IntArray) -> None:
        """A forward over *rows*; *kind* and the COUNTS are [rows that take part]."""
        columns = {"kind": np.full(self.n_rows, ABSENT, dtype=np.int64)}
        columns["kind"][rows] = kind
        for name in COUNTS:
            columns[name] = np.zeros(self.n_rows, dtype=np.int64)
            columns[name][rows] = counts[name]
        for name in CHANGES:
            columns[name] = np.zeros(self.n_rows, dtype=np.int64)
        self.forwards.append(columns)
        self.count[rows] += 1

    def update(self, done: Updates) -> None:
        """What the last forward did to blocks."""
        self.updates.append(vars(done))
        for name in ("revealed", "edited"):
            np.add.at(self.forwards[-1][name], done.row, getattr(done, name))

    def admit(self, rows: IntArray, block: IntArray) -> None:
        """Blocks join from the next forward on."""
        self.life["admitted"][rows, block] = self.count[rows]

    def finish(self, rows: IntArray, block: IntArray) -> None:
        """Blocks are complete after the last forward; said again if they were re-opened."""
        self.life["finished"][rows, block] = self.count[rows] - 1

    def retire(self, rows: IntArray, block: IntArray, committed_tokens: IntArray) -> None:
        """Blocks are final after the last forward; *rows* may name one several times."""
        if not len(rows):
            return
        self.life["retired"][rows, block] = self.count[rows] - 1
        np.add.at(self.forwards[-1]["committed_tokens"], rows, committed_tokens)

    def tables(self) -> BlockTables:
        """Everything, by request."""
        names = ("kind", *COUNTS, *CHANGES)
        whole = {name: np.stack([f[name] for f in self.forwards], axis=1) for name in names}
        there = whole["kind"] != ABSENT
        admitted = self.life["admitted"] != ABSENT
        row, block = np.nonzero(admitted)
        length = np.zeros((self.n_rows, self.n_blocks), dtype=np.int64)
        joined = {
            name: np.concatenate([u[name] for u in self.updates])
            for name in ("row", "block", *LOCAL_LISTS)
        }
        np.add.at(length, (joined["row"], joined["block"]), 1)
        order = np.lexsort((joined["block"], joined["row"]))
        return BlockTables(
            first_step=np.concatenate([[0], np.cumsum(there.sum(axis=1))]),
            steps={name: values[there] for name, values in whole.items()},
            blocks={
                "request": row,
                "block": block,
                **{name: values[admitted] for name, values in self.life.items()},
            },
            first_local=np.concatenate([[0], np.cumsum(length[admitted])]),
            local_steps={name: joined[name][order] for name in LOCAL_LISTS},
        )


KIND: Final = {kind: place for place, kind in enumerate(KINDS)}
"""Places of the kinds of forwards."""
