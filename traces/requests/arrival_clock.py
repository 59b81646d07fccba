"""ArrivalClock: a file's timestamps as seconds since its first row, never going back."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from traces.requests.request_block import FloatArray
from traces.requests.request_file_error import RequestFileError
from traces.requests.request_format import RequestFormat
from traces.requests.text_column import TextColumn
from traces.requests.timestamps import TICKS_PER_S, is_date_time, ticks

MOST_S: Final = 1e9
"""Beyond 30 years a clock no longer tells the steps of a decoder apart."""


@dataclass
class ArrivalClock:
    """The unit, the first timestamp and the one that was read last, in ticks."""

    unit: str
    may_go_back: bool
    first: Any = None
    last: Any = None

    @classmethod
    def of(
        cls, form: RequestFormat, column: TextColumn, *, time_unit: str, may_go_back: bool
    ) -> Self:
        """The clock of a file by its first block; raises RequestFileError for an unknown unit."""
        return cls(_unit(form, column, time_unit), may_go_back)

    def seconds(self, column: TextColumn) -> FloatArray:
        """The next block, [rows]; raises RequestFileError where a row is before the one above."""
        now = ticks(column, self.unit)
        if self.first is None:
            self.first = self.last = now[0]
        back_s = -np.diff(now, prepend=self.last) / TICKS_PER_S[self.unit]
        wrong = np.flatnonzero(back_s > 0)
        if len(wrong) and not self.may_go_back:
            row = int(wrong[0])
            rule = f"is {back_s[row]:.6g} s before the row above (order: sort sorts the rows)"
            raise column.wrong(row, rule)
        self.last = now[-1]
        since: FloatArray = (now - self.first) / TICKS_PER_S[self.unit]
        late = np.flatnonzero(np.abs(since) > MOST_S)
        if len(late):
            row = int(late[0])
            rule = f"is {since[row]:.3g} s behind the first row, over {MOST_S:g}: another unit?"
            raise column.wrong(row, rule)
        return since


def _unit(form: RequestFormat, column: TextColumn, time_unit: str) -> str:
    """The unit that is asked for, else what the value is, else what the format says."""
    if time_unit != "auto":
        named = column.name.casefold().rpartition("_")[2]
        if {named, time_unit} == {"s", "ms"}:
            rule = f"is in {named} by its name and in {time_unit} by time_unit"
            raise RequestFileError(column.path, rule, column=column.name)
        return time_unit
    if is_date_time(column.cells[0]):
        return "iso"
    unit = form.unit(column.name)
    if unit is None or unit == "iso":
        raise column.wrong(0, "must be an ISO date-time; for a number, time_unit says s or ms")
    return unit
