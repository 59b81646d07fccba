"""Checks: what is wrong with the fields of a sweep's file, before any point is made."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulator.documents import Mistake, shown
from simulator.price import unknown_hardware
from simulator.scenario_fields import ScenarioFields, leaves
from simulator.sweep.design import NAME, SEED, SweepFile


def mistakes_in(
    sweep: SweepFile, base: Mapping[str, Any], known_fields: ScenarioFields
) -> Iterator[Mistake]:
    """Fields that no scenario has, or that are set twice; prices of no hardware."""
    parts = [("scenario", base), *parts_of(sweep)]
    named = ((where, dotted) for where, part in parts for dotted, _ in leaves(part))
    for where, dotted in dict.fromkeys(named):
        what = known_fields.check(dotted)
        if what is not None:
            yield Mistake(f"{where}.{dotted}", what)
    for field, values in sweep.grid.items():
        yield from _repeated(f"grid.{field}", values)
    yield from _set_twice(sweep)
    if isinstance(sweep.gpu_hour_cost, dict):
        for name in sweep.gpu_hour_cost:
            if what := unknown_hardware(name):
                yield Mistake("gpu_hour_cost", what)


def parts_of(sweep: SweepFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, settings) of everything that sets fields of points; spaces stand for their values."""
    for number, entry in enumerate(sweep.points):
        yield f"points[{number}]", {name: v for name, v in entry.items() if name != NAME}
    for field, values in sweep.grid.items():
        yield from (("grid", {field: value}) for value in values)
    for where, part in (("sample.fields", sweep.sample), ("search.fields", sweep.search)):
        for field, space in (part.fields if part else {}).items():
            yield from ((where, {field: v}) for v in (space if isinstance(space, list) else [None]))


def _repeated(where: str, values: Sequence[Any]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for value in values:
        written = json.dumps(value, default=str)
        if written in seen:
            yield Mistake(where, f"has {shown(value)} twice")
        seen.add(written)


def _set_twice(sweep: SweepFile) -> Iterator[Mistake]:
    """Fields that two of points, grid (by field), sample, search and repeat set."""
    setters: dict[str, set[str]] = {}
    for where, part in parts_of(sweep):
        field = next(iter(part)) if where == "grid" else ""
        setter = f"grid.{field}" if field else where.partition("[")[0]
        for dotted, _ in leaves(part):
            setters.setdefault(dotted, set()).add(setter)
    if sweep.repeats > 1 or isinstance(sweep.repeat, list):
        setters.setdefault(SEED, set()).add("repeat")
    for dotted, names in setters.items():
        if len(names) > 1:
            yield Mistake(dotted, f"is set by {' and by '.join(sorted(names))}; one must say it")
