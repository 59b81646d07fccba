"""Outcome: the table of a finished sweep, its fronts, and what went wrong how often."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.result_folder import unwritable
from simulator.sweep.columns import columns_of
from simulator.sweep.design import NAME, SEED, Front
from simulator.sweep.folder import write_results
from simulator.sweep.fronts import Fronts, Member
from simulator.sweep.journal import Journal
from simulator.sweep.reading import Sweep
from simulator.sweep.sweep import kept, leading_columns
from simulator.sweep.table import (
    BETWEEN_WARNINGS,
    ERROR,
    FAILED,
    OK,
    ON_FRONT,
    STATUS,
    WARNINGS,
    Row,
)

_NUMBER = re.compile(r"\d+([.,]\d+)*")


class Tally:
    """In how many rows there is a sentence; those that differ in their numbers alone are one."""

    def __init__(self) -> None:
        """Start with none."""
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def take(self, sentences: Iterable[str]) -> None:
        """Count one row more for each of its *sentences*."""
        forms = {_NUMBER.sub("#", each): each for each in sentences if each}
        for form, sentence in forms.items():
            self._first.setdefault(form, sentence)
        self._counts.update(forms.keys())

    def most_frequent(self) -> list[tuple[str, int]]:
        """(the first of its form, how many), the most frequent first."""
        return [(self._first[form], count) for form, count in self._counts.most_common()]


@dataclass(frozen=True)
class Outcome:
    """What a sweep has come to."""

    points: int
    failed: int
    fronts: Mapping[str, Front]
    members: Mapping[str, list[dict[str, Any]]]
    """By front: name and varied fields of a point, then the front's columns, means of repeats."""
    errors: list[tuple[str, int]]
    """The first of each kind, and how many there are."""
    warnings: list[tuple[str, int]]


@dataclass
class _Seen:
    """What the rows of a table say together."""

    fronts: Fronts
    failed: int = 0
    errors: Tally = field(default_factory=Tally)
    warnings: Tally = field(default_factory=Tally)

    def watching(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The *rows*, taken in as they pass."""
        for row in rows:
            if row[STATUS] == FAILED:
                self.failed += 1
                self.errors.take([str(row[ERROR])])
            else:
                self.fronts.take(row)
            self.warnings.take(str(row.get(WARNINGS) or "").split(BETWEEN_WARNINGS))
            yield row


def write_outcome(sweep: Sweep, journal: Journal, folder: Path) -> Outcome:
    """Write the table of all points in *journal*; raises DocumentError when it cannot be."""
    points = journal.points

    def rows() -> Iterator[Row]:
        return (journal.row(point) for point in points)

    named = tuple(dict.fromkeys((NAME, *(each for each in sweep.varied if each != SEED))))
    seen = _Seen(Fronts(sweep.fronts, named))
    types = columns_of(seen.watching(rows()), leading_columns(sweep))
    members = seen.fronts.members()
    marks = {name: {member.group for member in found} for name, found in members.items()}

    def marked() -> Iterator[Row]:
        for row in rows():
            group, is_run = seen.fronts.group(row), row[STATUS] == OK
            yield row | {f"{ON_FRONT}{name}": is_run and group in on for name, on in marks.items()}

    marked_types = _with_marks(types, marks)
    try:
        write_results(folder, marked, marked_types)
    except OSError as error:
        raise unwritable(folder, error, f"; {kept(journal, sweep)}") from error
    return Outcome(
        points=len(points),
        failed=seen.failed,
        fronts=sweep.fronts,
        members={name: [_told(named, m) for m in found] for name, found in members.items()},
        errors=seen.errors.most_frequent(),
        warnings=seen.warnings.most_frequent(),
    )


def _with_marks(types: Mapping[str, type], marks: Iterable[str]) -> dict[str, type]:
    """The columns with one for each front, before status and error."""
    last = {column: types[column] for column in (STATUS, ERROR) if column in types}
    first = {column: kind for column, kind in types.items() if column not in last}
    return first | {f"{ON_FRONT}{name}": bool for name in marks} | last


def _told(named: tuple[str, ...], member: Member) -> dict[str, Any]:
    """A point on a front; a name that it has not is left out."""
    said = dict(zip(named, member.group, strict=True))
    if not said[NAME]:
        del said[NAME]
    return said | dict(member.means)
