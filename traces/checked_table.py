"""CheckedTable: a table whose columns are right, and who in it breaks a rule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traces.columns import BoolArray, IntArray, among, entries, flags, lengths, numbers
from traces.table_schema import number_columns
from traces.trace_error import TraceMistake

LARGEST: Final = 2**31 - 1
"""The largest number that a column of whole numbers holds."""


@dataclass(frozen=True)
class CheckedTable:
    """The table called *name*, which is in *file*."""

    name: str
    file: str
    table: pa.Table

    def __getitem__(self, column: str) -> IntArray:
        """A column of whole numbers, [rows]."""
        return numbers(self.table, column)

    def __len__(self) -> int:
        """Rows."""
        return int(self.table.num_rows)

    def flags(self, column: str) -> BoolArray:
        """A column of yes and no, [rows]."""
        return flags(self.table, column)

    def among(self, column: str, *words: str) -> BoolArray:
        """Where *column* has one of *words*, [rows]."""
        return among(self.table, column, *words)

    def entries(self, column: str) -> IntArray:
        """The entries of all lists of *column*."""
        return entries(self.table, column)

    def lengths(self, column: str) -> IntArray:
        """The length of each list of *column*, [rows]."""
        return lengths(self.table, column)

    def sums(self, column: str) -> IntArray:
        """The sum of each list of *column*, [rows]."""
        return self._by_row(column, self.entries(column))

    def broken(self, wrong: npt.ArrayLike, rule: str) -> Iterator[TraceMistake]:
        """*rule* for the first row that is *wrong*, and how many more there are."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            place = " ".join(f"{name} {self[name][rows[0]]}" for name in number_columns(self.name))
            more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            yield TraceMistake(self.file, place, rule + more)

    def equal(self, column: str, wanted: IntArray, rule: str) -> Iterator[TraceMistake]:
        """Rows whose *column* is not as *wanted*."""
        wrong = self[column] != wanted
        if wrong.any():
            row = int(np.argmax(wrong))
            said = f"{column} {rule}, {wanted[row]}, got {self[column][row]}"
            yield from self.broken(wrong, said)

    def between(
        self, column: str, low: npt.ArrayLike, high: npt.ArrayLike, rule: str
    ) -> Iterator[TraceMistake]:
        """Rows whose *column* is below *low* or above *high*, numbers or one per row."""
        least, most = (np.broadcast_to(bound, len(self)) for bound in (low, high))
        wrong = (self[column] < least) | (self[column] > most)
        if wrong.any():
            row = int(np.argmax(wrong))
            said = f"{column} is {least[row]} to {most[row]}, {rule}, got {self[column][row]}"
            yield from self.broken(wrong, said)

    def spelled(self, column: str, words: Sequence[str]) -> Iterator[TraceMistake]:
        """Rows whose *column* is none of these *words*."""
        wrong = ~self.among(column, *words)
        if wrong.any():
            got = self.table[column][int(np.argmax(wrong))].as_py()
            yield from self.broken(wrong, f"{column} is {' or '.join(words)}, got {got!r}")

    def broken_entries(self, column: str, wrong: BoolArray, rule: str) -> Iterator[TraceMistake]:
        """Rows of which an entry of the list *column* is *wrong*."""
        yield from self.broken(self._by_row(column, wrong) > 0, rule)

    def _by_row(self, column: str, values: npt.ArrayLike) -> IntArray:
        row = np.repeat(np.arange(len(self)), self.lengths(column))
        return sums_by(row, values, len(self))


def sums_by(owner: IntArray, values: npt.ArrayLike, owners: int) -> IntArray:
    """The sum of *values* of each of the *owners*, exact; the owner -1 is nobody."""
    made = np.zeros(owners, dtype=np.int64)
    np.add.at(made, owner[owner >= 0], np.asarray(values, dtype=np.int64)[owner >= 0])
    return made
