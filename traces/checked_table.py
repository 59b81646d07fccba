"""CheckedTable: a table whose columns are right, and who in it breaks a rule."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traces.block_tables import NUMBERS, BoolArray, IntArray, entries, lengths, numbers
from traces.trace_error import TraceMistake


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
            place = " ".join(f"{name} {self[name][rows[0]]}" for name in NUMBERS[self.name])
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

    def broken_entries(self, column: str, wrong: BoolArray, rule: str) -> Iterator[TraceMistake]:
        """Rows of which an entry of the list *column* is *wrong*."""
        yield from self.broken(self._by_row(column, wrong.astype(np.int64)) > 0, rule)

    def _by_row(self, column: str, values: IntArray) -> IntArray:
        row = np.repeat(np.arange(len(self)), self.lengths(column))
        return sums_by(row, values, len(self))


def sums_by(owner: IntArray, values: IntArray, owners: int) -> IntArray:
    """The sum of *values* of each of the *owners*, exact; the owner -1 is nobody."""
    made = np.zeros(owners, dtype=np.int64)
    np.add.at(made, owner[owner >= 0], values[owner >= 0])
    return made
