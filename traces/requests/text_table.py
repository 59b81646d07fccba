"""TextTable: a file of CSV or JSON lines as blocks of text columns, by what its first line is."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from traces.requests.request_file_error import RequestFileError
from traces.requests.text_column import IntArray, TextColumn, shown
from traces.requests.text_lines import text_lines

BLOCK_ROWS = 8192

Columns = list[TextColumn]
Refuse = Callable[[RequestFileError], None]
"""What is done about a row that is none."""


def raised(error: RequestFileError) -> None:
    """Raise *error*: the first wrong row ends the reading."""
    raise error


class TextTable(Protocol):
    """A table whose rows can be read once."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of its columns."""

    def blocks(self, columns: Sequence[int], refuse: Refuse = raised) -> Iterator[Columns]:
        """Blocks of rows, of the columns at these places of the header; raises RequestFileError.

        A row that has other columns than the header is left out and put to *refuse*.
        """


def open_table(path: Path) -> TextTable:
    """The table in the file at *path*; raises RequestFileError where it holds no row."""
    lines = text_lines(path)
    for number, line in enumerate(lines, start=1):
        start = line.strip()
        if start.startswith("["):
            what = "is a JSON array; JSON lines (one object a line) or CSV are needed"
            raise RequestFileError(path, what)
        if start.startswith("{"):
            return JsonTable(path, number, _json_object(path, number, start), lines)
        if start:
            return CsvTable(path, number, _csv_header(path, number, line), lines)
    raise RequestFileError(path, "is empty")


@dataclass(frozen=True)
class CsvTable:
    """Comma-separated values below a header."""

    path: Path
    header_line: int
    header: tuple[str, ...]
    lines: Iterator[str]

    def blocks(self, columns: Sequence[int], refuse: Refuse = raised) -> Iterator[Columns]:
        """As TextTable says; empty lines are no rows."""
        reader = csv.reader(self.lines, strict=True)
        found = False
        while True:
            first = self.header_line + reader.line_num + 1
            try:
                rows = list(islice(reader, BLOCK_ROWS))
            except csv.Error as error:
                line = self.header_line + reader.line_num
                rule = f"is not readable as CSV: {error}"
                raise RequestFileError(self.path, rule, line=line) from error
            if not rows:
                break
            numbers = first + np.arange(len(rows))
            if [] in rows:
                numbers = numbers[[bool(row) for row in rows]]
                rows = [row for row in rows if row]
            if rows:
                found = True
                rows, numbers = self._whole(rows, numbers, refuse)
                yield self._columns(rows, numbers, columns)
        if not found:
            raise RequestFileError(self.path, "has a header and no row below it")

    def _whole(
        self, rows: list[list[str]], lines: IntArray, refuse: Refuse
    ) -> tuple[list[list[str]], IntArray]:
        """The rows that are as wide as the header."""
        width = len(self.header)
        if set(map(len, rows)) == {width}:
            return rows, lines
        for row, line in zip(rows, lines.tolist(), strict=True):
            if len(row) != width:
                rule = f"has {len(row)} values where the header has {width}"
                refuse(RequestFileError(self.path, rule, line=line))
        kept = [len(row) == width for row in rows]
        return [row for row in rows if len(row) == width], lines[kept]

    def _columns(self, rows: list[list[str]], lines: IntArray, places: Sequence[int]) -> Columns:
        cells = list(zip(*rows, strict=True)) or [()] * len(self.header)
        return [TextColumn(self.path, self.header[p], lines, cells[p]) for p in places]


@dataclass(frozen=True)
class JsonTable:
    """One JSON object a line; the first one's keys are the header."""

    path: Path
    first_line: int
    first: dict[str, Any]
    lines: Iterator[str]

    @property
    def header(self) -> tuple[str, ...]:
        """The first object's keys."""
        return tuple(self.first)

    def blocks(self, columns: Sequence[int], refuse: Refuse = raised) -> Iterator[Columns]:
        """As TextTable says; what a row lacks is None."""
        names = [self.header[place] for place in columns]
        rows = self._rows(refuse)
        while block := list(islice(rows, BLOCK_ROWS)):
            numbers = np.array([number for number, _ in block])
            yield [
                TextColumn(self.path, name, numbers, [row.get(name) for _, row in block])
                for name in names
            ]

    def _rows(self, refuse: Refuse) -> Iterator[tuple[int, dict[str, Any]]]:
        yield self.first_line, self.first
        for number, line in enumerate(self.lines, start=self.first_line + 1):
            text = line.strip()
            if not text:
                continue
            try:
                row = _json_object(self.path, number, text)
            except RequestFileError as error:
                refuse(error)
            else:
                yield number, row


def _csv_header(path: Path, number: int, line: str) -> tuple[str, ...]:
    try:
        return tuple(name.strip() for name in next(csv.reader([line], strict=True)))
    except csv.Error as error:
        rule = f"is not readable as CSV: {error}"
        raise RequestFileError(path, rule, line=number) from error


def _json_object(path: Path, number: int, text: str) -> dict[str, Any]:
    """The object in *text*, its numbers as they are written."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        rule = f"is not readable as JSON: {error}"
        raise RequestFileError(path, rule, line=number) from error
    if not isinstance(value, dict):
        raise RequestFileError(path, f"must be an object, got {shown(value)}", line=number)
    return value
