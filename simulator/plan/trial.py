"""Trial: one simulation of a plan, and what its objectives came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simulator.compared_metrics import value_of
from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.measure import Window
from simulator.metrics import times_s
from simulator.plan.objective import Objective
from simulator.records import RunRecords
from simulator.result import RunResult, run
from simulator.runs import KEPT

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """A scenario, and what is asked of its run."""

    document: Mapping[str, Any]
    objectives: tuple[Objective, ...]


@dataclass(frozen=True)
class Outcome:
    """What a trial came to."""

    values: dict[str, float | None]
    """By objective; None where a run has no such thing, as time per token of one-token answers."""
    steady: dict[str, Any] | None
    """What `run` says of the queue."""
    summary: dict[str, Any]
    """The parts of the run's summary that explain it; empty where it was refused."""
    refused: str = ""
    """Why there was no run."""

    @property
    def state(self) -> str:
        """steady, growing or too short."""
        return str(self.steady["state"]) if self.steady else "steady"

    @property
    def growth_share(self) -> float | None:
        """By how much of the arrivals the system grew; None where too few came to tell."""
        share = self.steady["growth_share"] if self.steady else 0.0
        return None if share is None else float(share)


def tried(trial: Trial) -> Outcome:
    """Simulate it. What a scenario is refused for is an outcome, too."""
    try:
        result = run(build(trial.document, "candidate"), keep_steps=False)
    except DocumentError as error:
        return Outcome({}, None, {}, "; ".join(str(mistake) for mistake in error.mistakes))
    values = values_of(result, trial.objectives)
    kept = {part: result.summary[part] for part in KEPT}
    return Outcome(values, result.summary["steady"], kept)


def values_of(result: RunResult, objectives: tuple[Objective, ...]) -> dict[str, float | None]:
    """The value of each of the *objectives*, by name."""
    records, metrics = result.simulated.records, result.summary["metrics"]
    by_metric = times_s(records.requests)
    return {
        each.name: _of_requests(each, by_metric[each.metric], records, result.window)
        if each.metric in by_metric
        else value_of(metrics, each.column)
        for each in objectives
    }


def _of_requests(
    objective: Objective, taken_s: FloatArray, records: RunRecords, window: Window
) -> float | None:
    """A percentile or the mean of *taken_s* over the requests that arrive inside the *window*.

    One that was rejected is never served: it takes for ever.
    """
    measured = window.has(records.requests.column("arrival_s"))
    known_s = taken_s[measured & ~np.isnan(taken_s)]
    rejected = int(window.has(records.rejected.column("arrival_s")).sum())
    if rejected:
        known_s = np.concatenate([known_s, np.full(rejected, np.inf)])
    if not len(known_s):
        return None
    if objective.percentile is None:
        return float(known_s.mean())
    # Between a time and for ever there is nothing to interpolate.
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if rejected else "linear"
    return float(np.percentile(known_s, objective.percentile, method=method))
