"""Published throughput and latency, and the scenarios that ought to reproduce them.

A file holds one source. A `PublishedTable` is a grid: the scenario of a cell is `base`, then the
settings of its row, of its column and of the cell itself. A `PublishedList` has a line per
measurement. Settings are dotted fields of a scenario (`decode.block: 4`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Strict

from simulator.documents import load
from simulator.model import STRICT, Positive
from simulator.scenario import with_settings

FOLDER = Path(__file__).parent

Metric = Literal["output_tokens_per_s", "tpot_s", "step_latency_s", "latency_s"]
UNITS: dict[Metric, str] = {
    "output_tokens_per_s": "tokens/s",
    "tpot_s": "s",
    "step_latency_s": "s",
    "latency_s": "s",
}

Label = Annotated[int, Strict()] | Annotated[str, Strict()]
Scalar = (
    Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict()]
    | Annotated[str, Strict()]
)
Settings = dict[str, Scalar]


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


@dataclass(frozen=True)
class PublishedTable:
    """A grid of published cells; *row_name* says what its row labels are."""

    __pydantic_config__ = STRICT

    table: str
    row_name: str
    base: dict[str, Any]
    rows: dict[Label, Settings]
    columns: dict[Label, Settings]
    measures: tuple[Measure, ...]
    by_cell: dict[str, dict[Label, dict[Label, Scalar]]] = field(default_factory=dict)
    """For a dotted field whose value differs by cell: row, then column, then value."""
    note: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError unless every grid has exactly the table's rows and columns."""
        for measure in self.measures:
            self._check_grid(measure.metric, measure.values)
            fit = measure.calibrates
            if fit:
                _known("calibrates.rows", fit.rows or (), self.rows.keys())
                _known("calibrates.columns", fit.columns or (), self.columns.keys())
        for dotted, grid in self.by_cell.items():
            self._check_grid(dotted, grid)

    def _check_grid(self, name: str, grid: Mapping[Label, Mapping[Label, object]]) -> None:
        _same_labels(name, grid.keys(), self.rows.keys())
        for row, line in grid.items():
            _same_labels(f"{name}, row {row}", line.keys(), self.columns.keys())


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
    own = {dotted: grid[row][column] for dotted, grid in table.by_cell.items()}
    settings = table.rows[row] | table.columns[column] | own
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
        scenario=with_settings(table.base, settings),
    )


def _same_labels(where: str, given: Collection[Label], wanted: Collection[Label]) -> None:
    """Raise ValueError unless *given* holds exactly the *wanted* labels."""
    _known(where, given, wanted)
    missing = [label for label in wanted if label not in given]
    if missing:
        msg = f"{where} has nothing for {', '.join(map(repr, missing))}"
        raise ValueError(msg)


def _known(where: str, given: Collection[Label], wanted: Collection[Label]) -> None:
    """Raise ValueError when one of the *given* labels is not among the *wanted* ones."""
    strange = [label for label in given if label not in wanted]
    if strange:
        msg = (
            f"{where} names {', '.join(map(repr, strange))}; known: {', '.join(map(repr, wanted))}"
        )
        raise ValueError(msg)


def _is_positive(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
