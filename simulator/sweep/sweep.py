"""Sweep: run every point that is not on disk yet, and keep each at once."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from simulator.documents import DocumentError
from simulator.execution.pool import Pool
from simulator.execution.tasks import Lost, Tasks
from simulator.result_folder import unwritable
from simulator.scenario_fields import FieldAbsentError
from simulator.sweep.design import NAME, SEED
from simulator.sweep.expansion import Point
from simulator.sweep.journal import POINT, FinishedRows, Journal
from simulator.sweep.reading import Sweep
from simulator.sweep.table import Row, Value, failed
from simulator.sweep.task import Task, simulated

ALWAYS: Final = ("model", "hardware", "engine", "decode.policy", "parallel.tp", "parallel.dp")
"""Fields that every table has."""


def field_columns(sweep: Sweep) -> tuple[str, ...]:
    """The fields that the table has: those that vary, the seed, and those that it always has."""
    return tuple(dict.fromkeys((*sweep.varied, SEED, *ALWAYS)))


def leading_columns(sweep: Sweep) -> tuple[str, ...]:
    """The first columns of the table."""
    return (POINT, NAME, *field_columns(sweep))


def run_points(
    sweep: Sweep, journal: Journal, pool: Pool, advance: Callable[[], None] = lambda: None
) -> None:
    """Run in *pool* whatever *journal* lacks; *advance* is called for every point kept.

    Raises DocumentError when a row cannot be written; those before it are on disk.
    """
    keeping = _Keeping(sweep, journal, Tasks(pool, simulated), advance)
    batches = sweep.source.batches()
    points = next(batches, None)
    while points is not None:
        for point in points:
            keeping.begin(point)
        keeping.finish()
        try:
            points = batches.send(FinishedRows(journal, [point.index for point in points]))
        except StopIteration:
            points = None


class _Keeping:
    """Points under way, and what becomes of them."""

    def __init__(
        self,
        sweep: Sweep,
        journal: Journal,
        tasks: Tasks[int, Task, Row],
        advance: Callable[[], None],
    ) -> None:
        self._sweep, self._journal, self._tasks = sweep, journal, tasks
        self._advance = advance
        self._fields = field_columns(sweep)
        self._prices = sweep.file.prices
        self._begun: dict[int, Row] = {}
        """The first columns of the points under way."""

    def begin(self, point: Point) -> None:
        """Put a point among the tasks, unless it is finished; waits while there is no room."""
        if point.index in self._journal:
            return
        while not self._tasks.has_room:
            self._keep_next()
        document = point.document(self._sweep.base)
        self._begun[point.index] = self._said(point, document)
        hardware = document.get("hardware")
        price = self._prices.of(hardware) if isinstance(hardware, str) else None
        is_priced = self._sweep.file.gpu_hour_cost is not None
        self._tasks.add(point.index, Task(document, price, is_priced))

    def finish(self) -> None:
        """Wait for all that are under way."""
        while len(self._tasks):
            self._keep_next()
        try:
            self._journal.sync()
        except OSError as error:
            raise self._unwritable(error) from error

    def _keep_next(self) -> None:
        index, answer = self._tasks.next_finished()
        row = failed(answer.what) if isinstance(answer, Lost) else answer
        try:
            self._journal.append(index, self._begun.pop(index) | row)
        except OSError as error:
            raise self._unwritable(error) from error
        self._advance()

    def _said(self, point: Point, document: Mapping[str, Any]) -> Row:
        """The name, and what *document* says of the fields that the table has."""
        row: Row = {NAME: point.name or None}
        return row | {dotted: self._value(document, dotted) for dotted in self._fields}

    def _value(self, document: Mapping[str, Any], dotted: str) -> Value:
        try:
            return _plain(self._sweep.values.value(document, dotted))
        except FieldAbsentError:
            return None

    def _unwritable(self, error: OSError) -> DocumentError:
        return unwritable(self._journal.path.parent, error, f"; {kept(self._journal, self._sweep)}")


def kept(journal: Journal, sweep: Sweep) -> str:
    """How far a sweep is that stops here."""
    return f"{len(journal)} of {len(sweep.source)} points are on disk; --resume goes on with them"


def _plain(value: Any) -> Value:  # noqa: ANN401 (a YAML value)
    """A value as a column holds it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json.dumps(value, default=str)
