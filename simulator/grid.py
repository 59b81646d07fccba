"""Grid: scenarios in rows and columns, each the base with a few dotted fields set.

The scenario of a cell is `base`, then the settings of its row, of its column and of the cell
itself. Settings are dotted fields of a scenario (`decode.block: 4`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Strict

from simulator.model import STRICT
from simulator.scenario import with_settings

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


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Scenarios by row and column; *row_name* says what the row labels are."""

    __pydantic_config__ = STRICT

    row_name: str
    base: dict[str, Any]
    rows: dict[Label, Settings]
    columns: dict[Label, Settings]
    by_cell: dict[str, dict[Label, dict[Label, Scalar]]] = field(default_factory=dict)
    """For a dotted field whose value differs by cell: row, then column, then value."""
    note: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError unless what differs by cell is given for every cell."""
        for dotted, grid in self.by_cell.items():
            self.check_grid(dotted, grid)

    def check_grid(self, name: str, grid: Mapping[Label, Mapping[Label, object]]) -> None:
        """Raise ValueError unless *grid* has exactly the rows and columns of this one."""
        _same_labels(name, grid.keys(), self.rows.keys())
        for row, line in grid.items():
            _same_labels(f"{name}, row {row}", line.keys(), self.columns.keys())

    def scenario(self, row: Label, column: Label) -> dict[str, Any]:
        """The scenario document of a cell."""
        own = {dotted: grid[row][column] for dotted, grid in self.by_cell.items()}
        return with_settings(self.base, self.rows[row] | self.columns[column] | own)


def check_known(where: str, given: Collection[Label], wanted: Collection[Label]) -> None:
    """Raise ValueError when one of the *given* labels is not among the *wanted* ones."""
    strange = [label for label in given if label not in wanted]
    if strange:
        msg = (
            f"{where} names {', '.join(map(repr, strange))}; known: {', '.join(map(repr, wanted))}"
        )
        raise ValueError(msg)


def _same_labels(where: str, given: Collection[Label], wanted: Collection[Label]) -> None:
    """Raise ValueError unless *given* holds exactly the *wanted* labels."""
    check_known(where, given, wanted)
    missing = [label for label in wanted if label not in given]
    if missing:
        msg = f"{where} has nothing for {', '.join(map(repr, missing))}"
        raise ValueError(msg)
