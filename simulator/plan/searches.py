"""Searches: the fewest replicas at a rate, or the highest rate of some replicas."""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simulator.deployment import build
from simulator.plan.evaluation import Asked, Evaluation, Told
from simulator.plan.least import Least, Span, least
from simulator.plan.trial import Outcome
from simulator.plan.verdict import Verdict
from simulator.plan.words import beside_limit, shortfall
from simulator.scenario import with_settings

FULL_SHARE: Final = 0.8
"""Of what a full replica serves, where a search begins."""
HOPELESS: Final = 4
"""Times as many replicas as are tried: whatever the start is off by, their queues would grow."""
NOISE_MARGIN: Final = 0.1
"""Of a limit: drawn acceptance moves a percentile of a few requests that are alone by less."""
HEADROOM: Final = (1.1, 1.25)
"""Loads, as a multiple of the plan's, at which its answer is tried."""
RATE_STEP: Final = 1.02
"""Ratio of neighbouring rates."""
RATE_STRIDE: Final = 12
RATES_EITHER_WAY: Final = 400
"""A factor of 2,800 above and below where the search begins."""
BEST_ALONE: Final = ("goodput", "output_tokens_per_s_per_request")
"""What is best for a request that is alone, beside all times."""


@dataclass(frozen=True)
class Planned:
    """What a search found about a candidate."""

    evaluation: Evaluation
    runs: int
    replicas: int | None = None
    """None where nothing keeps the objectives; *reason* says why."""
    rate_per_s: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What makes the candidate the scenario of the answer."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """That scenario."""
    gpus: int = 0
    verdict: Verdict | None = None
    """At the answer."""
    beyond: Verdict | None = None
    """With one replica fewer or at the next higher rate; None where there is no such thing."""
    beyond_what: str = ""
    headroom: Mapping[float, Verdict] = field(default_factory=dict)
    exceptions: tuple[str, ...] = ()
    """Where it did not hold though it should: what is searched is not monotone there."""
    reason: str = ""
    is_never: bool = False
    """Whether not even an idle replica keeps the objectives."""

    @property
    def is_met(self) -> bool:
        """Whether there is an answer."""
        return self.verdict is not None


def fewest_replicas(evaluation: Evaluation, rate_per_s: float) -> Generator[Asked, Told, Planned]:
    """The least number of replicas that keeps the objectives."""
    never = yield from _never(evaluation, rate_per_s)
    if never:
        return Planned(evaluation, evaluation.runs, reason=never, is_never=True)
    full_per_s = FULL_SHARE * (yield from evaluation.full_rate_per_s())
    start, most = math.ceil(rate_per_s / full_per_s), evaluation.effort.most_replicas
    if start > HOPELESS * most and not evaluation.load.is_trace:
        reason = f"about {start:,} replicas are needed; at most {most} are tried"
        return Planned(evaluation, evaluation.runs, reason=reason)
    found = yield from least(
        lambda replicas: evaluation.glance(replicas, rate_per_s),
        lambda replicas: evaluation.judge(replicas, rate_per_s),
        Span(1, most, start, stride=max(1, start // 3)),
    )
    if found.number is None:
        reason = f"with {most} replicas, the most that are tried: {shortfall(found.judged[most])}"
        return Planned(evaluation, evaluation.runs, reason=reason)
    exceptions = [
        f"{replicas} replicas: {shortfall(found.judged[replicas])}" for replicas in found.exceptions
    ]
    fewer = f"with {_replicas(found.number - 1)}"
    return (yield from _planned(evaluation, found.number, rate_per_s, found, (fewer, exceptions)))


def highest_rate(evaluation: Evaluation, replicas: int) -> Generator[Asked, Told, Planned]:
    """The highest rate at which so many *replicas* keep the objectives, to a RATE_STEP."""
    never = yield from _never(evaluation, None)
    if never:
        return Planned(evaluation, evaluation.runs, reason=never, is_never=True)
    full_per_s = FULL_SHARE * replicas * (yield from evaluation.full_rate_per_s())
    # It holds at low rates, so the search is for the least number of a falling rate.
    start = -round(math.log(full_per_s, RATE_STEP))
    most = start + RATES_EITHER_WAY
    found = yield from least(
        lambda number: evaluation.glance(replicas, rate_at(number)),
        lambda number: evaluation.judge(replicas, rate_at(number)),
        Span(start - RATES_EITHER_WAY, most, start, RATE_STRIDE),
    )
    if found.number is None:
        lowest = f"at {rate_at(most):.2g} requests/s, the fewest that are tried"
        reason = f"{lowest}: {shortfall(found.judged[most])}"
        return Planned(evaluation, evaluation.runs, reason=reason)
    exceptions = [
        f"{rate_at(number):.4g} requests/s: {shortfall(found.judged[number])}"
        for number in found.exceptions
    ]
    rate_per_s = rate_at(found.number)
    higher = f"at {rate_at(found.number - 1):.4g} req/s"
    return (yield from _planned(evaluation, replicas, rate_per_s, found, (higher, exceptions)))


def _replicas(number: int) -> str:
    return f"{number} replica{'' if number == 1 else 's'}"


def rate_at(number: int) -> float:
    """Requests a second, falling with *number*; 1 at 0."""
    return float(RATE_STEP**-number)


def _planned(
    evaluation: Evaluation,
    replicas: int,
    rate_per_s: float,
    found: Least[Verdict],
    words: tuple[str, list[str]],
) -> Generator[Asked, Told, Planned]:
    """The answer, with what more load does to it."""
    headroom: dict[float, Verdict] = {}
    for factor in HEADROOM:
        headroom[factor] = yield from evaluation.try_out(replicas, rate_per_s, factor)
    settings = evaluation.settings(replicas, rate_per_s)
    document = with_settings(evaluation.document, settings)
    number = found.number if found.number is not None else 0
    return Planned(
        evaluation=evaluation,
        runs=evaluation.runs,
        replicas=replicas,
        rate_per_s=rate_per_s,
        settings=settings,
        document=document,
        gpus=build(document, evaluation.name).gpus,
        verdict=found.judged[number],
        beyond=found.judged.get(number - 1),
        beyond_what=words[0],
        headroom=headroom,
        exceptions=tuple(words[1]),
    )


def _never(evaluation: Evaluation, rate_per_s: float | None) -> Generator[Asked, Told, str]:
    """Why no number of replicas keeps the objectives; empty if some may."""
    words = _even_alone(evaluation, (yield from evaluation.alone()))
    return words or ("" if rate_per_s is None else _more_than_comes(evaluation, rate_per_s))


def _even_alone(evaluation: Evaluation, alone: Outcome) -> str:
    """The first objective that not even requests which meet nobody keep, in words."""
    if alone.refused:
        return alone.refused
    if evaluation.load.varies:  # some requests say nothing of a percentile of all
        return ""
    for objective in evaluation.objectives:
        value = alone.values[objective.name]
        if not (objective.is_time or objective.metric in BEST_ALONE) or value is None:
            continue
        if objective.margin(value) < -NOISE_MARGIN:
            return f"even an idle replica has {beside_limit(objective, value)}"
    return ""


def _more_than_comes(evaluation: Evaluation, rate_per_s: float) -> str:
    """The first objective that asks for more than arrives, in words."""
    comes = {
        "requests_per_s": rate_per_s,
        "output_tokens_per_s": rate_per_s * evaluation.deployment.example.output_tokens,
    }
    for objective in evaluation.objectives:
        if objective.metric in comes and comes[objective.metric] < objective.limit:
            most = beside_limit(objective, comes[objective.metric])
            return f"all that comes, served at once, has {most}"
    return ""
