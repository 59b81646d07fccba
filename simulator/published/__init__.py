"""Published throughput and latency, and the scenarios that ought to reproduce them.

A file holds one source. A `PublishedTable` is a grid of scenarios, a `PublishedList` has a line per
measurement. Settings are dotted fields of a scenario (`decode.block: 4`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.documents import load
from simulator.grid import UNITS, Grid, Label, Metric, Scalar, check_known
from simulator.model import STRICT, Positive
from simulator.scenario import with_settings

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Calibration:
    """The cells that the fit of an *engine* profile uses: all rows and columns unless named."""

    __pydantic_config__ = STRICT

    engine: str
    rows: tuple[Label, ...] | None = None
    columns: tuple[Label, ...] | None = None

    def uses(self, row: Label, column: Label) -> bool:
        """Whether the fit uses the cell at *row* and *column*, given that it has a value."""
        in_rows = self.rows is None or row in self.rows
        return in_rows and (self.columns is None or column in self.columns)


@dataclass(frozen=True)
class Measure:
    """One metric of a table; a null among its *values* is a value that we do not have."""

    __pydantic_config__ = STRICT

    metric: Metric
    values: dict[Label, dict[Label, Positive | None]]
    calibrates: Calibration | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedTable(Grid):
    """A grid of published cells."""

    __pydantic_config__ = STRICT

    table: str
    measures: tuple[Measure, ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless every grid has exactly the table's rows and columns."""
        for measure in self.measures:
            self.check_grid(measure.metric, measure.values)
            fit = measure.calibrates
            if fit:
                check_known("calibrates.rows", fit.rows or (), self.rows.keys())
                check_known("calibrates.columns", fit.columns or (), self.columns.keys())
        super().__post_init__()


@dataclass(frozen=True)
class PublishedList:
    """Published measurements of one metric, a line each: a value for every field, then the result.

    *label* says what all the lines have in common, the version of the software included.
    """

    __pydantic_config__ = STRICT

    table: str
    label: str
    metric: Metric
    base: dict[str, Any]
    fields: tuple[str, ...]
    lines: tuple[tuple[Scalar, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError unless every line has one value per field and a positive result."""
        for line in self.lines:
            if len(line) != len(self.fields) + 1:
                msg = f"a line has {len(self.fields)} fields and a result, got {list(line)}"
                raise ValueError(msg)
            if not _is_positive(line[-1]):
                msg = f"the last value of a line is its positive result, got {list(line)}"
                raise ValueError(msg)


@dataclass(frozen=True)
class Publication:
    """What one source published; *paper* is the stem of its file."""

    __pydantic_config__ = STRICT

    paper: str
    title: str
    source: str
    note: str = ""
    tables: tuple[PublishedTable, ...] = ()
    lists: tuple[PublishedList, ...] = ()


@dataclass(frozen=True)
class Case:
    """One published cell, and the scenario whose *metric* should come out like it."""

    paper: str
    table: str
    cell: str
    metric: Metric
    unit: str
    published: float | None
    """None where the value exists but is not available to us, or is not usable."""
    used_for_calibration_of: str | None
    """The engine profile whose fit saw this value."""
    scenario: dict[str, Any]


def names() -> list[str]:
    """The sources that there are, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def publication(name: str) -> Publication:
    """The source called *name*; raises DocumentError when its file is missing or wrong."""
    return load(Publication, FOLDER / f"{name}.yaml")


def cases(source: Publication) -> list[Case]:
    """Every cell of *source*, tables before lists, in the order of the file."""
    in_tables = (case for table in source.tables for case in table_cases(source.paper, table))
    in_lists = (case for entry in source.lists for case in list_cases(source.paper, entry))
    return [*in_tables, *in_lists]


def table_cases(paper: str, table: PublishedTable) -> Iterator[Case]:
    """The cells of *table*, measure by measure and row by row."""
    for measure in table.measures:
        for row, line in measure.values.items():
            for column, published in line.items():
                yield _table_case(paper, table, measure, (row, column), published)


def list_cases(paper: str, entry: PublishedList) -> Iterator[Case]:
    """The lines of *entry* as cells, in order; none is used for calibration."""
    for *values, published in entry.lines:
        settings = dict(zip(entry.fields, values, strict=True))
        at = ", ".join(f"{dotted.split('.')[-1]} {value}" for dotted, value in settings.items())
        yield Case(
            paper=paper,
            table=entry.table,
            cell=f"{entry.label}, {at}",
            metric=entry.metric,
            unit=UNITS[entry.metric],
            published=float(published),
            used_for_calibration_of=None,
            scenario=with_settings(entry.base, settings),
        )


def _table_case(
    paper: str,
    table: PublishedTable,
    measure: Measure,
    at: tuple[Label, Label],
    published: float | None,
) -> Case:
    row, column = at
    fit = measure.calibrates
    used = fit is not None and published is not None and fit.uses(row, column)
    return Case(
        paper=paper,
        table=table.table,
        cell=f"{table.row_name} {row}, {column}",
        metric=measure.metric,
        unit=UNITS[measure.metric],
        published=published,
        used_for_calibration_of=fit.engine if fit and used else None,
        scenario=table.scenario(row, column),
    )


def _is_positive(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
