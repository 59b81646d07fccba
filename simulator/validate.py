"""Validate: predicted against published, cell by cell."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.calibrate import RATES
from simulator.published import Case, cases, names, publication
from simulator.runs import Summary, summaries


@dataclass(frozen=True)
class Cell:
    """A published cell and its prediction; None when either is not to be had."""

    paper: str
    table: str
    cell: str
    metric: str
    unit: str
    published: float | None
    predicted: float | None
    low: float | None
    high: float | None
    used_for_calibration: bool
    note: str = ""

    @property
    def error(self) -> float | None:
        """Predicted over published, less one."""
        if self.published is None or self.predicted is None:
            return None
        return self.predicted / self.published - 1


def predict(
    work: Sequence[Case], *, workers: int = 1, advance: Callable[[], None] = lambda: None
) -> list[Cell]:
    """A cell for every case, in order; cases that differ only in the metric share a run.

    With several *workers* the runs are spread over processes; the cells are the same.
    """
    found = summaries(
        [(case.cell, case.scenario) for case in work], workers=workers, advance=advance
    )
    return [_cell(case, summary) for case, summary in zip(work, found, strict=True)]


def _cell(case: Case, summary: Summary) -> Cell:
    value, note, spread = None, "", 1.0
    if isinstance(summary, str):
        note = summary
    else:
        value = metric_of(summary["metrics"], case.metric)
        spread += summary["interval"]["relative"]
    return Cell(
        paper=case.paper,
        table=case.table,
        cell=case.cell,
        metric=case.metric,
        unit=case.unit,
        published=case.published,
        predicted=value,
        low=None if value is None else value / spread,
        high=None if value is None else value * spread,
        used_for_calibration=case.used_for_calibration_of is not None,
        note=note,
    )


def metric_of(metrics: dict[str, Any], name: str) -> float:
    """The metric's value, the mean of a distribution."""
    value = metrics[name]
    return float(value if name in RATES else value["mean"])


def published_cases(papers: Sequence[str]) -> list[Case]:
    """The cells of *papers*, or of all when none is named."""
    return [case for paper in papers or names() for case in cases(publication(paper))]


def mape(cells: Iterable[Cell]) -> float | None:
    """Mean absolute relative error of the cells that have one; None without any."""
    errors = [abs(cell.error) for cell in cells if cell.error is not None]
    return float(np.mean(errors)) if errors else None


def grouped(cells: Sequence[Cell], key: Callable[[Cell], str]) -> dict[str, dict[str, Any]]:
    """Per group: cells with an error, MAPE, the worst cell, how many lie in the interval."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.error is not None:
            groups.setdefault(key(cell), []).append(cell)
    return {name: _group(members) for name, members in groups.items()}


def _group(cells: list[Cell]) -> dict[str, Any]:
    worst = max(cells, key=lambda cell: abs(cell.error or 0.0))
    inside = [c for c in cells if (c.low or 0) <= (c.published or 0) <= (c.high or 0)]
    return {
        "cells": len(cells),
        "mape": mape(cells),
        "worst_cell": worst.cell,
        "worst_error": worst.error,
        "inside_interval": len(inside) / len(cells),
    }


def report(cells: Sequence[Cell]) -> dict[str, Any]:
    """Cells, and MAPE over the cells that no calibration used, by paper and by column."""
    free = [cell for cell in cells if not cell.used_for_calibration]
    return {
        "cells": [vars(cell) | {"error": cell.error} for cell in cells],
        "mape": {
            paper: mape(cell for cell in free if cell.paper == paper)
            for paper in dict.fromkeys(cell.paper for cell in cells)
        },
        "mape_calibration": {
            paper: mape(c for c in cells if c.used_for_calibration and c.paper == paper)
            for paper in dict.fromkeys(cell.paper for cell in cells)
        },
        "by_column": grouped(cells, lambda cell: f"{cell.paper} {cell.table}: {_column(cell)}"),
    }


def _column(cell: Cell) -> str:
    """The part of the cell's label that its column shares: after the row in a table."""
    head, _, tail = cell.cell.partition(", ")
    role = " (calibration)" if cell.used_for_calibration else ""
    return (tail if "," not in tail else head) + f" {cell.metric}{role}"
