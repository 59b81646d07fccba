"""Wrong rows: all of a file's, not the first alone, by a second reading that goes on behind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from traces.requests.arrival_clock import MOST_S, ArrivalClock
from traces.requests.request_file import RequestFile, RequestReader, open_requests
from traces.requests.request_file_error import RequestFileError
from traces.requests.text_column import TextColumn
from traces.requests.timestamps import TICKS_PER_S, ticks
from traces.requests.token_counts import check_no_zero, prefix_blocks, token_counts

MOST_TOLD: Final = 10
MOST_COUNTED: Final = 1000
"""Wrong rows after which the reading ends: nobody mends more of them by hand."""

Check = Callable[[TextColumn], object]


@dataclass(frozen=True)
class WrongRows:
    """The first wrong rows of a file, in its order, and how many more there are."""

    told: tuple[RequestFileError, ...]
    others: int
    ends_early: bool = False
    """Whether there may be more than were counted."""

    @property
    def sentence(self) -> str:
        """What to say of the others; empty without any."""
        if not self.others:
            return ""
        more = "more than " if self.ends_early else ""
        what = "other row is" if self.others == 1 else "other rows are"
        return f"{more}{self.others} {what} wrong too"


def wrong_rows(source: RequestFile, first: RequestFileError) -> WrongRows:
    """The wrong rows of *source*, whose reading raised *first*.

    Where what is wrong is no row, or the file changed in between, that error alone. Rows behind
    those that a selection takes count too.
    """
    if first.line is None:
        return WrongRows((first,), 0)
    found = _Found()
    try:
        _read(open_requests(source), found)
    except RequestFileError as error:
        # Behind a broken quote, for example, there is no telling where rows begin.
        found.add(error)
    lines = sorted(found.by_line)
    if first.line not in found.by_line:
        return WrongRows((first,), 0)
    told = tuple(found.by_line[line] for line in lines[:MOST_TOLD])
    return WrongRows(told, len(lines) - len(told), found.is_full)


@dataclass
class _Found:
    """Mistakes by line, the first one of each."""

    by_line: dict[int, RequestFileError] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.by_line) >= MOST_COUNTED

    def add(self, error: RequestFileError) -> None:
        if error.line is None:
            raise error
        if not self.is_full:
            self.by_line.setdefault(error.line, error)


def _read(reader: RequestReader, found: _Found) -> None:
    places, arrivals = reader.layout.places, None
    for columns in reader.table.blocks(list(places.values()), found.add):
        named = dict(zip(places, columns, strict=True))
        if not columns[0].cells:
            continue
        checks = _checks(reader.source)
        if reader.source.needs_arrivals:
            arrivals = arrivals or _Arrivals(reader.clock(named["arrival"]))
            checks["arrival"] = arrivals
        for role in named.keys() & checks.keys():
            for error in _every(checks[role], named[role]):
                found.add(error)
        if found.is_full:
            return


def _checks(source: RequestFile) -> dict[str, Check]:
    """What each column but the arrivals must pass, by role."""

    def counts(column: TextColumn) -> None:
        found = token_counts(column)
        if source.zero_lengths == "reject":
            check_no_zero(column, found)

    checks: dict[str, Check] = {"prompt": counts, "output": counts}
    return checks | ({"prefix": prefix_blocks} if source.needs_arrivals else {})


class _Arrivals:
    """Checks arrivals block by block, each row with the one above it."""

    def __init__(self, clock: ArrivalClock) -> None:
        self._unit, self._may_go_back = clock.unit, clock.may_go_back
        self._first: Any = None
        self._last: Any = None

    def __call__(self, column: TextColumn) -> None:
        own = ticks(_cut(column, 0, 1), self._unit)[0]
        self._first = own if self._first is None else self._first
        last = own if self._last is None else self._last
        clock = ArrivalClock(self._unit, self._may_go_back, self._first, last)
        clock.seconds(column)
        self._last = clock.last

    def pass_over(self, row: TextColumn) -> None:
        """The next row is compared with *row*, which is wrong, where that is a time at all."""
        try:
            own = ticks(row, self._unit)[0]
        except RequestFileError:
            return
        if abs(own - self._first) <= MOST_S * TICKS_PER_S[self._unit]:
            self._last = own


def _every(check: Check, column: TextColumn) -> Iterator[RequestFileError]:
    """What *check* raises on *column*, on the rows above the wrong one, and on those below."""
    begin = 0
    while begin < len(column.cells):
        part = _cut(column, begin, None)
        try:
            check(part)
        except RequestFileError as error:
            if error.line is None:
                raise
            row = int(np.searchsorted(part.lines, error.line))
            # Rows above it have passed that rule, perhaps not the next one.
            yield from _every(check, _cut(part, 0, row))
            yield error
            if isinstance(check, _Arrivals):
                check.pass_over(_cut(part, row, row + 1))
            begin += row + 1
        else:
            return


def _cut(column: TextColumn, begin: int, end: int | None) -> TextColumn:
    """Some rows of *column*."""
    rows = slice(begin, end)
    return TextColumn(column.path, column.name, column.lines[rows], column.cells[rows])
