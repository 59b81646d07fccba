"""Trial: one simulation of a plan, and what its objectives came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simulator.deployment import Deployment, build
from simulator.documents import DocumentError
from simulator.measure import Window, window_of
from simulator.metrics import (
    latency_s,
    queueing_s,
    time_per_output_token_s,
    time_to_first_token_s,
)
from simulator.plan.objective import TALLIED, Objective
from simulator.records import RunRecords
from simulator.result import RunResult, run
from simulator.runs import KEPT

FloatArray = npt.NDArray[np.float64]

PER_REQUEST = {
    "ttft": time_to_first_token_s,
    "tpot": time_per_output_token_s,
    "latency": latency_s,
    "queueing": queueing_s,
}


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
    deployment, records = result.simulated.deployment, result.simulated.records
    window = _window(deployment, records)
    return {
        objective.name: _value(objective, result.summary["metrics"], records, window)
        for objective in objectives
    }


def _window(deployment: Deployment, records: RunRecords) -> Window:
    scenario = deployment.scenario
    return window_of(records, scenario.measure, is_closed=scenario.workload.is_closed)


def _value(
    objective: Objective, metrics: Mapping[str, Any], records: RunRecords, window: Window
) -> float | None:
    if objective.metric in PER_REQUEST:
        return _of_requests(objective, records, window)
    found = metrics[f"{objective.metric}_s" if objective.metric in TALLIED else objective.metric]
    if objective.metric == "goodput":
        found = found["share"]
    elif objective.metric in TALLIED:
        found = None if found is None else found[objective.statistic]
    return None if found is None else float(found)


def _of_requests(objective: Objective, records: RunRecords, window: Window) -> float | None:
    """A percentile or the mean over the requests that arrive inside the *window*.

    One that was rejected is never served: it takes for ever.
    """
    measured = window.has(records.requests.column("arrival_s"))
    times_s = PER_REQUEST[objective.metric](records.requests)[measured]
    times_s = times_s[~np.isnan(times_s)]
    rejected = int(window.has(records.rejected.column("arrival_s")).sum())
    if rejected:
        times_s = np.concatenate([times_s, np.full(rejected, np.inf)])
    if not len(times_s):
        return None
    if objective.percentile is None:
        return float(times_s.mean())
    # Between a time and for ever there is nothing to interpolate.
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if rejected else "linear"
    return float(np.percentile(times_s, objective.percentile, method=method))
