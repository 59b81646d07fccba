"""What-if: a question whose answer is a table of runs, the best of each row, and why it is best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from simulator.grid import UNITS, Grid, Label, Metric, Settings
from simulator.model import STRICT
from simulator.reasons import Bound, Reason, largest_bound, reason
from simulator.runs import Summary, summaries
from simulator.scenario import with_settings
from simulator.validate import metric_of

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
    metric: Metric
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
    """Relative, from the run's residuals."""
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
    """By how much the best is better than the runner-up, relative."""
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
        "unit": UNITS[what_if.metric],
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
        interval=max(cells[name].interval or 0.0 for name in pair) if pair else None,
        reason=_reason(*(runs[name] for name in pair)) if pair else None,
    )


def _cell(metric: Metric, run: Summary) -> Cell:
    if isinstance(run, str):
        return Cell(None, None, None, refused=run)
    if run["metrics"][metric] is None:
        return Cell(None, None, None, refused=f"a run without a decode step has no {metric}")
    value = metric_of(run["metrics"], metric)
    return Cell(value, run["interval"]["relative"], largest_bound(run))


def _ranked(cells: Mapping[str, Cell], *, is_higher_better: bool) -> Sequence[str]:
    """The columns that have a value, the best first; equal ones in their order."""
    values = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    sign = -1 if is_higher_better else 1
    return sorted(values, key=lambda name: sign * values[name])


def _margin(best: Cell, other: Cell) -> float:
    """How much larger the larger of two values is, relative to the smaller."""
    low, high = sorted((best.value or 0.0, other.value or 0.0))
    return high / low - 1


def _reason(best: Summary, other: Summary) -> Reason | None:
    return None if isinstance(best, str) or isinstance(other, str) else reason(best, other)
