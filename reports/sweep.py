"""Sweeps on the terminal: how many points, which failed and why, fronts, and where the table is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console

from reports.terminal import MOST_ROWS, console, left_out, table
from reports.units import seconds

MOST_SENTENCES = 5
"""Of errors and of warnings."""
SHORT = {
    "output_tokens_per_s_per_gpu": "tokens/s per GPU",
    "output_tokens_per_s_per_request": "tokens/s per request",
    "output_tokens_per_s": "output tokens/s",
    "cost_per_million_output_tokens": "per million tokens",
}
FILES = "results.parquet, results.csv"


class Front(Protocol):
    """The columns of a front."""

    @property
    def higher(self) -> Sequence[str]:
        """Those of which more is better."""

    @property
    def lower(self) -> Sequence[str]:
        """Those of which less is better."""


class Outcome(Protocol):
    """What a sweep has come to."""

    @property
    def points(self) -> int:
        """Rows of the table."""

    @property
    def failed(self) -> int:
        """Those without a run."""

    @property
    def fronts(self) -> Mapping[str, Any]:
        """By name, what is better higher or lower."""

    @property
    def members(self) -> Mapping[str, list[dict[str, Any]]]:
        """By front, its points."""

    @property
    def errors(self) -> list[tuple[str, int]]:
        """Sentences and how many points they are of."""

    @property
    def warnings(self) -> list[tuple[str, int]]:
        """Sentences and how many points they are of."""


def answer(outcome: Outcome, out: str) -> dict[str, Any]:
    """The outcome as plain values."""
    return {
        "points": outcome.points,
        "failed": outcome.failed,
        "errors": [{"error": told, "points": count} for told, count in outcome.errors],
        "warnings": [{"warning": told, "points": count} for told, count in outcome.warnings],
        "fronts": dict(outcome.members),
        "out": out,
    }


def print_sweep(outcome: Outcome, out: str) -> None:
    """The points, the failed ones by reason, each front as a table, what many runs warn of."""
    to = console()
    to.print(f"{_points(outcome.points)}, {outcome.failed} failed", style="bold")
    for line in _sentences(outcome.errors, "failed"):
        to.print(line)
    for name, front in outcome.fronts.items():
        to.print()
        _print_front(to, name, front, outcome.members[name])
    for line in _sentences(outcome.warnings, "warn"):
        to.print(line)
    to.print(f"\nThe table is in {out}: {FILES}", soft_wrap=True)


def _print_front(to: Console, name: str, front: Front, rows: Sequence[dict[str, Any]]) -> None:
    columns = (*front.higher, *front.lower)
    if not rows:
        to.print(f"{name}: no point has {' and '.join(columns)}")
        return
    fields = [field for field in rows[0] if field not in columns]
    telling = [f for f in fields if len({str(row.get(f)) for row in rows}) > 1] or fields[:1]
    shared = [f"{_last(f)} {_cell(rows[0].get(f))}" for f in fields if f not in telling]
    heads = [*(_last(field) for field in telling), *(_head(c) for c in columns)]
    lines = [
        [*(_cell(row.get(field)) for field in telling), *(_figure(c, row[c]) for c in columns)]
        for row in rows[:MOST_ROWS]
    ]
    better = [
        *(f"{_head(c)} high" for c in front.higher),
        *(f"{_head(c)} low" for c in front.lower),
    ]
    to.print(table(f"{name}: nothing has {' and '.join(better)} at once", heads, lines))
    if shared:
        to.print(f"all with {', '.join(shared)}")
    for line in left_out(len(rows), "points on this front"):
        to.print(line)


def _sentences(told: Sequence[tuple[str, int]], verb: str) -> Iterator[str]:
    for sentence, count in told[:MOST_SENTENCES]:
        yield f"{_points(count)} {verb}: {sentence}"
    if (more := len(told) - MOST_SENTENCES) > 0:
        yield f"{more} more kinds: --json has them"


def _points(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _head(column: str) -> str:
    return SHORT.get(column, column.replace("_", " ").removesuffix(" s"))


def _last(field: str) -> str:
    return field.rpartition(".")[2]


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _figure(column: str, value: float) -> str:
    return seconds(value) if column.endswith("_s") and "per_s" not in column else f"{value:.4g}"
