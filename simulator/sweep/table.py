"""Rows: what a run comes to as plain columns, each a number, a text, or nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simulator.compared_metrics import DISTRIBUTIONS, LEVELS, NUMBERS, level_name
from simulator.reasons import largest_bound

Value = bool | int | float | str | None
Row = dict[str, Value]

STATUS: Final = "status"
ERROR: Final = "error"
OK: Final = "ok"
FAILED: Final = "failed"
COST: Final = "cost_per_million_output_tokens"
WARNINGS: Final = "warnings"
BETWEEN_WARNINGS: Final = " | "
ON_FRONT: Final = "on_front_"
"""Begins the column that says which points are on a front."""

LEFT_OUT: Final = ("window", "busy_share_by_replica", "role_by_replica")
"""Metrics that are a sentence, or are as many as there are replicas."""
METRIC_COLUMNS: Final = (
    *NUMBERS,
    *(level_name(name, level) for name in DISTRIBUTIONS for level in LEVELS),
    *("goodput_share", "goodput_requests_per_s"),
    *("output_tokens", "requests_arrived", "requests_finished", "requests_measured"),
    "output_tokens_per_s_low",
    "output_tokens_per_s_high",
    "bound_share",
    "gpus",
    COST,
)
"""Columns of numbers that a run can have: what fronts and objectives are made of."""


def row_of(summary: Mapping[str, Any], gpus: int, cost: float | None, *, is_priced: bool) -> Row:
    """The columns of a run, its *summary* as `result.run` gives it; the unit is last in a name."""
    interval, bound = summary["interval"]["output_tokens_per_s"], largest_bound(summary)
    steady = summary["steady"]
    row = dict(flat(summary["metrics"]))
    row |= {f"output_tokens_per_s_{side}": interval[side] for side in ("low", "high")}
    row |= {"steady": None if steady is None else steady["state"]}
    row |= {"bound": bound.by, "bound_share": bound.share, "gpus": gpus}
    if is_priced:
        row[COST] = cost
    row[WARNINGS] = BETWEEN_WARNINGS.join(summary["warnings"]) or None
    return row | {STATUS: OK, ERROR: None}


def failed(error: str) -> Row:
    """The columns of a point that has no run."""
    return {STATUS: FAILED, ERROR: error}


def flat(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Every metric that is a number or a text, those of a mapping one by one."""
    for name, value in metrics.items():
        if name in LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            yield from _parts(name, value)
        elif name not in {*DISTRIBUTIONS, "goodput"}:
            yield name, value


def _parts(name: str, levels: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for level, value in levels.items():
        if value is None or isinstance(value, bool | int | float | str):
            yield level_name(name, level) if name.endswith("_s") else f"{name}_{level}", value
