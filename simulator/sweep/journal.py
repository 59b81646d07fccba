"""Journal: the rows of finished points, one line each, on disk as soon as they are there."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, overload

from simulator.documents import DocumentError, Mistake, shown
from simulator.sweep.table import FAILED, OK, STATUS, Row

POINT: Final = "point"
SYNC_S: Final = 0.2
"""Lines wait at most so long until they outlive a loss of power; a killed process loses none."""


@dataclass
class Journal:
    """Finished rows by their `point`, in the order in which they were finished.

    Rows stay on disk; only where each begins is kept.
    """

    path: Path
    _writer: FileIO
    """Without a buffer: what a failed write leaves in one would be written later."""
    _reader: BinaryIO
    _begins: dict[int, int] = field(default_factory=dict)
    """By point, the byte at which its line begins."""
    _end: int = 0
    _synced_s: float = 0.0

    def __len__(self) -> int:
        """Points that are finished."""
        return len(self._begins)

    def __contains__(self, point: int) -> bool:
        """Whether the point is finished."""
        return point in self._begins

    def append(self, point: int, row: Row) -> None:
        """Write a finished row; raises OSError, and then the file is as it was."""
        line = json.dumps({POINT: point} | row, allow_nan=False).encode() + b"\n"
        try:
            self._write(line)
        except OSError:
            self._cut()
            raise
        self._begins[point] = self._end
        self._end += len(line)
        if time.monotonic() - self._synced_s >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """Everything so far outlives a loss of power; raises OSError."""
        os.fsync(self._writer.fileno())
        self._synced_s = time.monotonic()

    def row(self, point: int) -> Row:
        """The row of a finished point, `point` its first column; raises KeyError."""
        self._reader.seek(self._begins[point])
        row: Row = json.loads(self._reader.readline())
        return row

    @property
    def points(self) -> list[int]:
        """The points that are finished, in the order of the table."""
        return sorted(self._begins)

    def read(self, n_points: int) -> None:
        """Take in what is there, of *n_points*; a torn last line is cut off.

        Raises DocumentError, naming the line, for one that no sweep wrote.
        """
        for number, line in enumerate(self._reader, 1):
            if not line.endswith(b"\n"):
                break
            point = _point_in(line, n_points)
            if isinstance(point, int) and point in self._begins:
                point = f"point {point} is there already"
            if isinstance(point, str):
                raise DocumentError(str(self.path), [Mistake(f"line {number}", point)])
            self._begins[point] = self._end
            self._end += len(line)
        self._cut()

    def _write(self, line: bytes) -> None:
        """Put *line* at the end; a disk that is almost full takes a part of it first."""
        self._writer.seek(self._end)
        rest = memoryview(line)
        while rest:
            rest = rest[self._writer.write(rest) :]

    def _cut(self) -> None:
        """Take away what is behind the last whole line."""
        os.ftruncate(self._writer.fileno(), self._end)


@contextmanager
def opened(path: Path, n_points: int) -> Iterator[Journal]:
    """The journal at *path*, of *n_points* in all; nobody else may have it open.

    Raises DocumentError when somebody has, and for a file that is no journal of ours.
    """
    with path.open("r+b", buffering=0) as writer, path.open("rb") as reader:
        try:
            fcntl.flock(writer.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            what = "another process is at work in this folder"
            raise DocumentError(str(path.parent), [Mistake("", what)]) from error
        journal = Journal(path, writer, reader)
        journal.read(n_points)
        yield journal


def _point_in(line: bytes, n_points: int) -> int | str:
    """The point of a line, or why it is none of ours."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # a bad encoding is a ValueError too
        return f"is not a row: {shown(line.decode(errors='replace').rstrip())}"
    if not isinstance(row, dict) or row.get(STATUS) not in {OK, FAILED}:
        return "is not a row of a sweep"
    point = row.get(POINT)
    if not isinstance(point, int) or isinstance(point, bool) or not 0 <= point < n_points:
        return f"there are {n_points} points, from 0; got {shown(point)}"
    return point


@dataclass(frozen=True)
class FinishedRows(Sequence[Row]):
    """The rows of some finished points, read when they are asked for."""

    journal: Journal
    points: Sequence[int]

    def __len__(self) -> int:
        """How many."""
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """One row, or a list of them; raises IndexError beyond the ends."""
        if isinstance(index, slice):
            return [self.journal.row(point) for point in self.points[index]]
        return self.journal.row(self.points[index])
