"""Candidates: what may be deployed, as a file of points or a grid says it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simulator.documents import DocumentError, Mistake, known, read_mapping, shown
from simulator.plan.plan import MOST_CANDIDATES, Candidate
from simulator.scenario_fields import leaves
from simulator.sweep.design import SEED
from simulator.sweep.expansion import Point
from simulator.sweep.reading import sweep_of

PARTS: Final = ("points", "grid", "sample", "where", "note")
"""Of a sweep's file, that a file of candidates has."""
SOUGHT: Final = "parallel.dp"
SET_BY_PLAN: Final = (SEED, "workload.rate_per_s", "workload.rate_scale", "workload.kind")
PLAIN: Final = ("policy", "model", "hardware", "engine", "mode", "router")
"""Fields whose values tell by themselves what they are of."""


def candidates_of(
    base: Mapping[str, Any],
    file: Path | None,
    over: Mapping[str, Sequence[Any]],
    *,
    has_given_replicas: bool = False,
) -> list[Candidate]:
    """The candidates of a *file* and of a grid *over* fields, or the scenario alone.

    Raises DocumentError with every mistake. Replicas may differ where they are given, not sought.
    """
    document = {} if file is None else read_mapping(file)
    origin = file if file is not None else Path("--over")
    strange = [name for name in document if name not in PARTS]
    if strange:
        raise DocumentError(str(origin), [Mistake(n, known(n, PARTS, "part")) for n in strange])
    grid = document.get("grid", {})
    if isinstance(grid, dict):
        document = document | {"grid": grid | dict(over)}
    sweep = sweep_of(document | {"scenario": dict(base)}, origin, {})
    _check_fields(sweep.varied, origin, has_given_replicas=has_given_replicas)
    (points,) = sweep.source.batches()
    if len(points) > MOST_CANDIDATES:
        what = f"{len(points):,} candidates; a plan is for at most {MOST_CANDIDATES:,}"
        raise DocumentError(str(origin), [Mistake("", what)])
    in_grid = set(sweep.file.grid)
    return _distinct([Candidate(_name(point, in_grid), _settings(point)) for point in points])


def _check_fields(varied: Sequence[str], origin: Path, *, has_given_replicas: bool) -> None:
    """Raise DocumentError for fields that a plan sets itself."""
    own = SET_BY_PLAN if has_given_replicas else (SOUGHT, *SET_BY_PLAN)
    wrong = [Mistake(field, "is set by the plan itself") for field in varied if field in own]
    if wrong:
        raise DocumentError(str(origin), wrong)


def _settings(point: Point) -> dict[str, Any]:
    return {field: value for field, value in point.ordered.items() if field != SEED}


def _name(point: Point, in_grid: Collection[str]) -> str:
    """The label of its entry and what the grid sets, or all its settings."""
    settings = _settings(point)
    told = {field: value for field, value in settings.items() if field in in_grid}
    words = [_words(*leaf) for leaf in leaves(told if point.name else settings)]
    return ", ".join(filter(None, [point.name, *words])) or "the scenario"


def _words(field: str, value: object) -> str:
    last = field.rpartition(".")[2]
    text = value if isinstance(value, str) else shown(value)
    return text if last in PLAIN else f"{last} {text}"


def _distinct(named: list[Candidate]) -> list[Candidate]:
    """The same with a number after each name that several have."""
    names = [each.name for each in named]
    return [
        each
        if names.count(each.name) == 1
        else Candidate(f"{each.name} ({names[: index + 1].count(each.name)})", each.settings)
        for index, each in enumerate(named)
    ]
