"""Plan: every candidate searched side by side, and ranked."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simulator.deployment import Deployment
from simulator.documents import DocumentError, Mistake
from simulator.execution.pool import Pool
from simulator.execution.tasks import Lost, Tasks
from simulator.plan.evaluation import Asked, Effort, Evaluation, Told
from simulator.plan.objective import Objective
from simulator.plan.rows import row_of
from simulator.plan.searches import RATE_STEP, Planned, fewest_replicas, highest_rate
from simulator.plan.trial import Outcome, Trial, tried
from simulator.plan.verdict import CONFIDENCE
from simulator.price import GpuPrices
from simulator.scenario import with_settings

MOST_CANDIDATES: Final = 1000


@dataclass(frozen=True)
class Candidate:
    """What might be deployed: the base scenario with *settings* put in place."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be found of every candidate."""

    objectives: tuple[Objective, ...]
    rate_per_s: float | None = None
    """The load; that of the scenario when absent."""
    is_for_highest_rate: bool = False
    """Whether the rate is sought for given GPUs, rather than replicas for a given rate."""
    gpus: int | None = None
    """Those given; as many as the scenario has when absent."""
    requests: int | None = None
    """In a run."""
    prices: GpuPrices = field(default_factory=GpuPrices)
    effort: Effort = field(default_factory=Effort)


def plan(
    base: Mapping[str, Any],
    candidates: Sequence[Candidate],
    question: Question,
    pool: Pool,
    *,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The candidates ranked, as plain values.

    *advance* is called when one is done. Raises DocumentError where no candidate is a scenario, or
    where not even an idle replica of any keeps the objectives.
    """
    searches, refused = _searches(base, candidates, question)
    found: dict[int, Planned] = {}
    for index, planned in run_side_by_side(searches, pool):
        found[index] = planned
        advance()
    _check_possible(found, refused, candidates)
    rows = [
        row_of(each.name, each.settings, found.get(index), question.prices, refused.get(index, ""))
        for index, each in enumerate(candidates)
    ]
    return _answer(rows, question, found)


def _searches(
    base: Mapping[str, Any], candidates: Sequence[Candidate], question: Question
) -> tuple[dict[int, Generator[Asked, Told, Planned]], dict[int, str]]:
    """A search for every candidate that is a scenario, and why the others are none."""
    searches: dict[int, Generator[Asked, Told, Planned]] = {}
    refused: dict[int, DocumentError] = {}
    for index, candidate in enumerate(candidates):
        document = with_settings(base, candidate.settings)
        try:
            searches[index] = _search(candidate.name, document, question)
        except DocumentError as error:
            refused[index] = error
    if not searches:
        raise next(iter(refused.values()))
    return searches, {
        index: "; ".join(str(mistake) for mistake in error.mistakes)
        for index, error in refused.items()
    }


def _search(
    name: str, document: Mapping[str, Any], question: Question
) -> Generator[Asked, Told, Planned]:
    evaluation = Evaluation(
        name,
        document,
        question.objectives,
        requests=question.requests,
        effort=question.effort,
    )
    if question.is_for_highest_rate:
        return highest_rate(evaluation, _given_replicas(evaluation.deployment, question.gpus))
    rate_per_s = question.rate_per_s or evaluation.load.own_rate_per_s
    if rate_per_s is None:
        what = "is needed: a closed load has no rate of its own"
        raise DocumentError(name, [Mistake("--rate", what)])
    return fewest_replicas(evaluation, rate_per_s)


def _given_replicas(deployment: Deployment, gpus: int | None) -> int:
    """Replicas that decode on so many *gpus*; raises DocumentError where that is none."""
    parallel = deployment.scenario.parallel
    if gpus is None:
        return parallel.dp
    fillers = deployment.replicas - parallel.dp
    replicas = gpus // parallel.tp - fillers
    if replicas < 1:
        needed = parallel.tp * (1 + fillers)
        raise DocumentError(
            "plan", [Mistake("--gpus", f"at least {needed} are needed, got {gpus}")]
        )
    return replicas


Round = tuple[int, int]
"""A search and the place of a trial among those that it asked for together."""


def run_side_by_side(
    searches: Mapping[int, Generator[Asked, Told, Planned]], pool: Pool
) -> Generator[tuple[int, Planned], None, None]:
    """What each search found, by its key, as they end; their trials share the *pool*."""
    tasks: Tasks[Round, Trial, Outcome] = Tasks(pool, tried)
    answers: dict[int, dict[int, Outcome]] = {}
    asked: dict[int, int] = {}

    def advance(key: int, told: Told | None) -> Planned | None:
        """Let a search go on; what it found when it is over."""
        try:
            trials = next(searches[key]) if told is None else searches[key].send(told)
        except StopIteration as stop:
            planned: Planned = stop.value
            return planned
        answers[key], asked[key] = {}, len(trials)
        for place, trial in enumerate(trials):
            tasks.add((key, place), trial)
        return None

    for key in searches:
        advance(key, None)
    while len(tasks):
        (key, place), answer = tasks.next_finished()
        answers[key][place] = _outcome(answer)
        if len(answers[key]) == asked[key]:
            planned = advance(key, [answers[key][each] for each in range(asked[key])])
            if planned is not None:
                yield key, planned


def _outcome(answer: Outcome | Lost) -> Outcome:
    return Outcome({}, None, {}, answer.what) if isinstance(answer, Lost) else answer


def _check_possible(
    found: Mapping[int, Planned], refused: Mapping[int, str], candidates: Sequence[Candidate]
) -> None:
    """Raise DocumentError where no candidate could ever keep the objectives."""
    if any(not planned.is_never for planned in found.values()):
        return
    mistakes = [Mistake(candidates[index].name, each.reason) for index, each in found.items()]
    mistakes += [Mistake(candidates[index].name, reason) for index, reason in refused.items()]
    raise DocumentError("--slo", mistakes)


def _answer(
    rows: list[dict[str, Any]], question: Question, found: Mapping[int, Planned]
) -> dict[str, Any]:
    """The rows in order of rank, what was asked, and how well it was looked for."""
    effort, seeks_rate = question.effort, question.is_for_highest_rate
    costs = [row["cost_per_million_output_tokens"] for row in rows if row["is_met"]]
    is_priced = bool(costs) and None not in costs
    by = "cost" if is_priced else "rate" if seeks_rate else "gpus"
    ranked = sorted(rows, key=lambda row: _rank(row, by))
    return {
        "seeks": "highest rate" if seeks_rate else "fewest GPUs",
        "rate_per_s": question.rate_per_s,
        "gpus": question.gpus,
        "objectives": [_described(each) for each in question.objectives],
        "ranked_by": by,
        "rows": ranked,
        "notes": list(
            dict.fromkeys(p.evaluation.load.note for p in found.values() if p.evaluation.load.note)
        ),
        "effort": {
            "confidence": CONFIDENCE,
            "least_seeds": effort.least_seeds,
            "most_seeds": effort.most_seeds,
            "most_replicas": effort.most_replicas,
            "rate_step": RATE_STEP if seeks_rate else None,
            "runs": sum(planned.runs for planned in found.values()),
        },
    }


def _rank(row: Mapping[str, Any], by: str) -> tuple[bool, float, float, float]:
    """Those that keep the objectives, the best first; among equals the one with more room."""
    if not row["is_met"]:
        return True, 0.0, 0.0, 0.0
    first = {
        "cost": row["cost_per_million_output_tokens"],
        "gpus": row["gpus"],
        "rate": -row["rate_per_s"],
    }[by]
    return (
        False,
        float(first),
        float(row["gpus"]),
        -_room(row),
    )


def _room(row: Mapping[str, Any]) -> float:
    """Of the objective with the least; a limit that does not apply leaves any."""
    margins = [each["margin"] for each in row["estimates"] if each["margin"] is not None]
    return float(min(margins, default=math.inf))


def _described(objective: Objective) -> dict[str, Any]:
    unit = "s" if objective.is_time else "share" if objective.is_share else "per s"
    return {
        "name": objective.name,
        "limit": objective.limit,
        "unit": unit,
        "is_floor": objective.is_floor,
    }
