"""What-if: a question whose answer is a table of runs, the best of each row, and why it is best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from simulator.compared_metrics import ComparedMetric, is_of_steps, missing, unit_of, value_of
from simulator.grid import Grid, Label, Settings
from simulator.model import STRICT
from simulator.reasons import Bound, Reason, largest_bound, reason
from simulator.runs import Summary, summaries
from simulator.scenario import with_settings

CROSSOVER = "crossover"
CROSSING_COLUMNS = 2


@dataclass(frozen=True, kw_only=True)
class WhatIf(Grid):
    """A question, the scenarios that answer it, and which conclusion to draw.

    Rows are repeated in every group. A crossover is the first row at which the first of two
    columns stops beating the second.
    """

    __pydantic_config__ = STRICT

    name: str
    question: str
    metric: ComparedMetric
    better: Literal["higher", "lower"]
    conclusion: Literal["best column per row", "crossover"]
    group_name: str = ""
    groups: dict[Label, Settings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError unless there are rows, and columns that can be compared."""
        if not self.rows:
            msg = "a table has at least one row"
            raise ValueError(msg)
        crosses = self.conclusion == CROSSOVER
        if crosses and len(self.columns) != CROSSING_COLUMNS:
            msg = f"a crossover is of {CROSSING_COLUMNS} columns, got {len(self.columns)}"
            raise ValueError(msg)
        if len(self.columns) < CROSSING_COLUMNS:
            msg = f"a comparison needs at least 2 columns, got {len(self.columns)}"
            raise ValueError(msg)
        super().__post_init__()

    def lines(self) -> Iterator[tuple[Label | None, Label]]:
        """(group, row) of every line, in order; without groups the group is None."""
        for group in self.groups or (None,):
            yield from ((group, row) for row in self.rows)

    def scenarios(self) -> list[tuple[str, dict[str, Any]]]:
        """(name, scenario document) of every cell, line by line."""
        return [
            (f"{group} {row}, {column}", self.at(group, row, column))
            for group, row in self.lines()
            for column in self.columns
        ]

    def at(self, group: Label | None, row: Label, column: Label) -> dict[str, Any]:
        """The scenario of a cell; the settings of its group come last."""
        settings = {} if group is None else self.groups[group]
        return with_settings(self.scenario(row, column), settings)


@dataclass(frozen=True)
class Cell:
    """What a run came to; without a value, why it was *refused*."""

    value: float | None
    interval: float | None
    """Relative, from the run's residuals; None for what is not as far off as its steps."""
    bound: Bound | None
    refused: str = ""


@dataclass(frozen=True)
class Line:
    """The cells of one row by column, and the best of them."""

    group: Label | None
    row: Label
    cells: dict[str, Cell]
    best: tuple[str, ...]
    """Several where they are equal; none where all are refused."""
    runner_up: str | None
    margin: float | None
    """By how much the best is better than the runner-up, relative; None where one is zero."""
    interval: float | None
    """The larger one of the two runs."""
    reason: Reason | None

    @property
    def is_within_interval(self) -> bool:
        """Whether the runs' own uncertainty is larger than what parts them."""
        return None not in {self.margin, self.interval} and (self.margin or 0) < (
            self.interval or 0
        )


def answer(
    what_if: WhatIf, *, workers: int = 1, advance: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The table, as plain values; a cell that is refused says why, and the others stand."""
    runs = summaries(what_if.scenarios(), workers=workers, advance=advance)
    found = iter(runs)
    columns = [str(column) for column in what_if.columns]
    lines = [
        _line(what_if, group, row, {column: next(found) for column in columns})
        for group, row in what_if.lines()
    ]
    return {
        "name": what_if.name,
        "question": what_if.question,
        "note": what_if.note,
        "metric": what_if.metric,
        "unit": unit_of(what_if.metric),
        "better": what_if.better,
        "draws": what_if.conclusion,
        "group_name": what_if.group_name,
        "row_name": what_if.row_name,
        "columns": columns,
        "lines": [asdict(line) | {"within_interval": line.is_within_interval} for line in lines],
        "warnings": _warnings(runs),
    }


def _warnings(runs: Sequence[Summary]) -> list[str]:
    """What the runs warn of, each once."""
    told = [warning for run in runs if not isinstance(run, str) for warning in run["warnings"]]
    return list(dict.fromkeys(told))


def _line(what_if: WhatIf, group: Label | None, row: Label, runs: Mapping[str, Summary]) -> Line:
    cells = {column: _cell(what_if.metric, run) for column, run in runs.items()}
    ranked = _ranked(cells, is_higher_better=what_if.better == "higher")
    best = tuple(name for name in ranked if cells[name].value == cells[ranked[0]].value)
    rest = ranked[len(best) :]
    runner_up = rest[0] if rest else None
    pair = (best[0], runner_up) if runner_up else None
    return Line(
        group=group,
        row=row,
        cells=cells,
        best=best,
        runner_up=runner_up,
        margin=_margin(*(cells[name] for name in pair)) if pair else None,
        interval=_interval(*(cells[name] for name in pair)) if pair else None,
        reason=_reason(*(runs[name] for name in pair)) if pair else None,
    )


def _cell(metric: str, run: Summary) -> Cell:
    if isinstance(run, str):
        return Cell(None, None, None, refused=run)
    value = value_of(run["metrics"], metric)
    if value is None:
        return Cell(None, None, None, refused=missing(metric))
    relative = run["interval"]["relative"] if is_of_steps(metric) else None
    return Cell(value, relative, largest_bound(run))


def _ranked(cells: Mapping[str, Cell], *, is_higher_better: bool) -> Sequence[str]:
    """The columns that have a value, the best first; equal ones in their order."""
    values = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    sign = -1 if is_higher_better else 1
    return sorted(values, key=lambda name: sign * values[name])


def _margin(best: Cell, other: Cell) -> float | None:
    """How much larger the larger of two values is, relative to the smaller; None beside zero."""
    low, high = sorted((best.value or 0.0, other.value or 0.0))
    return high / low - 1 if low else None


def _interval(best: Cell, other: Cell) -> float | None:
    """The larger one of two runs; None where there is none of the metric."""
    known = [cell.interval for cell in (best, other) if cell.interval is not None]
    return max(known, default=None)


def _reason(best: Summary, other: Summary) -> Reason | None:
    return None if isinstance(best, str) or isinstance(other, str) else reason(best, other)
