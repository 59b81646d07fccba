"""RequestFile: which file of requests, and how its rows are to be understood."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from traces.requests.arrival_clock import ArrivalClock
from traces.requests.layout import AUTO, Layout, layout_of
from traces.requests.request_block import FloatArray, RequestBlock, joined
from traces.requests.request_file_error import RequestFileError
from traces.requests.text_column import TextColumn
from traces.requests.text_table import TextTable, open_table
from traces.requests.token_counts import check_no_zero, prefix_blocks, token_counts

TimeUnit = Literal["auto", "s", "ms", "iso"]
ZeroLengths = Literal["reject", "skip"]
Order = Literal["reject", "sort"]

MOST_SORTED_ROWS = 10_000_000
"""Sorting holds every row: a row is 24 bytes, and its block identities."""


@dataclass(frozen=True, kw_only=True)
class RequestFile:
    """A file and what is asked of its reader."""

    path: Path
    format: str = AUTO
    time_unit: TimeUnit = "auto"
    zero_lengths: ZeroLengths = "reject"
    order: Order = "reject"
    needs_arrivals: bool = True


@dataclass(frozen=True)
class RequestReader:
    """An opened file; its rows can be read once."""

    source: RequestFile
    table: TextTable
    layout: Layout

    def blocks(self) -> Iterator[RequestBlock]:
        """Every request in order of arrival; raises RequestFileError at the first wrong row."""
        blocks = self._rows()
        if self.source.order == "sort" and self.source.needs_arrivals:
            blocks = iter([self._sorted(blocks)])
        return blocks

    def _rows(self) -> Iterator[RequestBlock]:
        places = self.layout.places
        clock = None
        for columns in self.table.blocks(list(places.values())):
            found = dict(zip(places, columns, strict=True))
            arrival_s = np.zeros(len(columns[0].cells))
            if self.source.needs_arrivals:
                clock = clock or self.clock(found["arrival"])
                arrival_s = clock.seconds(found["arrival"])
            yield self._block(found, arrival_s)

    def clock(self, column: TextColumn) -> ArrivalClock:
        """The clock of the file, by its first block; raises RequestFileError."""
        unit, may_go_back = self.source.time_unit, self.source.order == "sort"
        form = self.layout.form
        return ArrivalClock.of(form, column, time_unit=unit, may_go_back=may_go_back)

    def _block(self, found: dict[str, TextColumn], arrival_s: FloatArray) -> RequestBlock:
        prompts, outputs = token_counts(found["prompt"]), token_counts(found["output"])
        prefixes = None
        if "prefix" in found and self.source.needs_arrivals:
            prefixes = prefix_blocks(found["prefix"])
        block = RequestBlock(arrival_s, prompts, outputs, prefixes)
        if self.source.zero_lengths == "reject":
            check_no_zero(found["prompt"], prompts)
            check_no_zero(found["output"], outputs)
            return block
        kept = (prompts > 0) & (outputs > 0)
        return replace(block.taken(kept), skipped_rows=int((~kept).sum()))

    def _sorted(self, blocks: Iterator[RequestBlock]) -> RequestBlock:
        held, n_rows = [], 0
        for block in blocks:
            held.append(block)
            n_rows += block.n_requests
            if n_rows > MOST_SORTED_ROWS:
                rule = f"has more than {MOST_SORTED_ROWS} rows, too many to sort"
                raise RequestFileError(self.source.path, rule)
        whole = joined(held)
        order = np.argsort(whole.arrival_s, kind="stable")
        since_s = whole.arrival_s - whole.arrival_s.min(initial=np.inf)
        moved = int((np.diff(whole.arrival_s) < 0).sum())
        return replace(whole, arrival_s=since_s, moved_rows=moved).taken(order)


def open_requests(source: RequestFile) -> RequestReader:
    """The reader of *source*; raises RequestFileError where no row can be read."""
    table = open_table(source.path)
    layout = layout_of(
        source.path, table.header, name=source.format, needs_arrivals=source.needs_arrivals
    )
    return RequestReader(source, table, layout)
