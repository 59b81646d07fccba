"""Search: points that are chosen round by round, by what the rounds before them came to.

A round is asked for as a whole and told in its order, so that the points are the same whatever
number of workers ran them in whatever order, and the same again from rows that are on disk.
"""

import importlib.util
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simulator.documents import DocumentError, Mistake, known
from simulator.scenario_fields import scenario_fields
from simulator.sweep.constraints import REFUSED, Constraints
from simulator.sweep.design import SEED, SearchPlan, SweepFile
from simulator.sweep.expansion import Point, Settings
from simulator.sweep.optimizer import Optimizer
from simulator.sweep.spaces import space_of
from simulator.sweep.table import COST, METRIC_COLUMNS, OK, STATUS, Row

if TYPE_CHECKING:  # an extra, and slow to import
    from optuna.trial import Trial

Asked = tuple["Trial", dict[str, Any]]
"""A trial and its settings."""

ORIGIN: Final = "search"
TRIES: Final = 15
"""At a point that looks good, is new and keeps every constraint."""
BLIND_TRIES: Final = 1000
"""At any that is new, when those have failed; then the space is taken to be used up."""
PROBES: Final = 200
"""Points at which the constraints are tried before anything runs."""


def mistakes_in_search(sweep: SweepFile) -> Iterator[Mistake]:
    """Objectives that no run has, and what a plain install lacks."""
    if sweep.search is None:
        return
    if importlib.util.find_spec("optuna") is None:
        yield Mistake(ORIGIN, "optuna is not installed; pip install 'blockcast[search]'")
    for column in sweep.search.objectives:
        where = f"{ORIGIN}.objectives.{column}"
        if column not in METRIC_COLUMNS:
            yield Mistake(where, known(column, METRIC_COLUMNS, "column of numbers"))
        elif column == COST and sweep.gpu_hour_cost is None:
            yield Mistake(where, "a cost needs gpu_hour_cost")


class Search:
    """The points that a plan's optimizer asks for."""

    def __init__(
        self,
        plan: SearchPlan,
        *,
        base: Mapping[str, Any],
        seeds: Sequence[int],
        constraints: Constraints,
    ) -> None:
        """A trial has a point for each of the *seeds*; without any, it says its own or none.

        Raises DocumentError for constraints that cannot be told of a point.
        """
        self._plan, self._base, self._constraints = plan, base, constraints
        self._seeds: list[Settings] = [{SEED: seed} for seed in seeds] or [{}]
        self._known = scenario_fields()
        self._spaces = {field: space_of(space) for field, space in plan.fields.items()}
        generator = np.random.default_rng(plan.seed)
        for _ in range(PROBES if constraints.every else 0):
            drawn = {field: space.draw(generator) for field, space in self._spaces.items()}
            self._holds(self._applicable(drawn))

    def __len__(self) -> int:
        """Points that there are, unless the space is used up before."""
        return self._plan.trials * len(self._seeds)

    def batches(self) -> Generator[Sequence[Point], Sequence[Row], None]:
        """A round's points; is sent their rows."""
        plan = self._plan
        optimizer = Optimizer(self._spaces, list(plan.objectives.values()), plan.seed)
        seen: set[str] = set()
        trials = 0
        while trials < plan.trials:
            asked = self._round(optimizer, min(plan.per_round, plan.trials - trials), seen)
            if not asked:
                break
            settings = [{**own, **seed} for _, own in asked for seed in self._seeds]
            first = trials * len(self._seeds)
            rows = yield [Point(first + i, "", each) for i, each in enumerate(settings)]
            for (trial, _), values in zip(asked, self._values(rows), strict=True):
                optimizer.tell(trial, values)
            trials += len(asked)
        if not trials:
            what = f"no point that keeps every constraint was found in {BLIND_TRIES} tries"
            raise DocumentError(ORIGIN, [Mistake("where", what)])

    def _round(self, optimizer: Optimizer, most: int, seen: set[str]) -> list[Asked]:
        """So many trials, or fewer where the space is used up."""
        found: list[Asked] = []
        while len(found) < most:
            asked = self._learned(optimizer, seen) or self._blind(optimizer, seen)
            if asked is None:
                break
            found.append(asked)
        return found

    def _learned(self, optimizer: Optimizer, seen: set[str]) -> Asked | None:
        """A trial of a point that looks good, if one is soon found that is new."""
        for _ in range(TRIES):
            trial, drawn = optimizer.ask()
            settings = self._applicable(drawn)
            if self._is_new(settings, seen):
                return trial, settings
            optimizer.tell(trial, None)
        return None

    def _blind(self, optimizer: Optimizer, seen: set[str]) -> Asked | None:
        """A trial of any point that is new."""
        for _ in range(BLIND_TRIES):
            found, drawn = optimizer.blind()
            settings = self._applicable(drawn)
            if self._is_new(settings, seen):
                return optimizer.take(found), settings
        return None

    def _is_new(self, settings: Settings, seen: set[str]) -> bool:
        """Whether the point is not in *seen*, which takes it in, and keeps every constraint."""
        written = json.dumps(settings, sort_keys=True)
        if written in seen or not self._holds(settings):
            return False
        seen.add(written)
        return True

    def _applicable(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """What is *drawn* without the fields that its policy or kind of workload lacks."""
        document = Point(0, "", drawn).document(self._base)
        return {field: v for field, v in drawn.items() if self._known.applies(field, document)}

    def _holds(self, settings: Settings) -> bool:
        point = Point(0, "", settings)
        document = point.document(self._base)
        try:
            return self._constraints.hold(document)
        except REFUSED as error:
            mistakes = list(self._constraints.mistakes(document, point.words))
            raise DocumentError(ORIGIN, mistakes) from error

    def _values(self, rows: Sequence[Row]) -> Iterator[list[float] | None]:
        """What every trial came to: means over its seeds, in the order of the objectives."""
        for first in range(0, len(rows), len(self._seeds)):
            yield self._means(rows[first : first + len(self._seeds)])

    def _means(self, rows: Sequence[Row]) -> list[float] | None:
        columns = [[row.get(column) for row in rows] for column in self._plan.objectives]
        numbers = [[float(v) for v in values if isinstance(v, int | float)] for values in columns]
        is_whole = all(len(values) == len(rows) for values in numbers)
        if not is_whole or any(row[STATUS] != OK for row in rows):
            return None
        return [sum(values) / len(values) for values in numbers]
