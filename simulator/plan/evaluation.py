"""Evaluation: a scenario under so much load on so many replicas, as few runs as will tell.

Its methods are generators: they yield trials and are sent their outcomes, so that many of them may
share the processes of a machine.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from simulator.deployment import Deployment, build
from simulator.plan.load import full_replica, load_of
from simulator.plan.objective import Objective
from simulator.plan.trial import Outcome, Trial
from simulator.plan.verdict import Verdict, verdict
from simulator.scenario import with_settings

LONGER_STAYS: Final = 8
"""Times of its mean latency that a run lasts, once it was too short to tell whether a queue grows:
five of them must follow the warm-up."""
MOST_LONGER: Final = 4
"""Times as many requests as at first that a run may have then."""
SEEDS: Final = 2**32
SHORT_PART: Final = 4
SHORT_REQUESTS: Final = 300
"""A first run has a fourth of the requests and so many at least, to see what is overloaded."""
LONG_SEEDS: Final = 2
"""More than the least number, of runs that were made longer."""
HOPELESS_MARGIN: Final = 0.5
CLEAR_MARGIN: Final = 0.2
"""Of a limit; one run tells what is as far from it, where an impression is all that is asked."""

Asked = list[Trial]
Told = list[Outcome]


@dataclass(frozen=True)
class Effort:
    """How much is simulated at most."""

    least_seeds: int = 3
    most_seeds: int = 8
    most_replicas: int = 256


class Evaluation:
    """What is known of a candidate by the runs so far."""

    def __init__(
        self,
        name: str,
        document: Mapping[str, Any],
        objectives: tuple[Objective, ...],
        *,
        requests: int | None = None,
        effort: Effort = Effort(),
    ) -> None:
        """Raise DocumentError when the scenario is wrong or has no load to plan for."""
        self.name, self.document, self.objectives = name, document, objectives
        self.effort = effort
        self.deployment: Deployment = build(document, name)
        self.load = load_of(document, self.deployment, requests)
        self.runs = 0
        self._alone_s = 0.0
        self._nothing_is_drawn = False
        self._outcomes: dict[tuple[int, float, int | None, int], Outcome] = {}
        self._requests: dict[tuple[int, float], int] = {}

    def alone(self) -> Generator[Asked, Told, Outcome]:
        """Some requests that meet nobody: the least that every time can be."""
        settings = self.load.idle()
        (outcome,) = yield from self._ask([with_settings(self.document, settings)])
        if outcome.refused:
            return outcome
        latency = outcome.summary["metrics"]["latency_s"]
        if latency is None:
            return replace(outcome, refused="every request is rejected: none can ever be served")
        self._alone_s = float(latency["mean"])
        return outcome

    def full_rate_per_s(self) -> Generator[Asked, Told, float]:
        """About what a replica serves when it is full: only where to begin."""
        full = with_settings(self.document, full_replica(self.deployment))
        (outcome,) = yield from self._ask([full])
        return 1.0 if outcome.refused else float(outcome.summary["metrics"]["requests_per_s"])

    def glance(self, replicas: int, rate_per_s: float) -> Generator[Asked, Told, bool]:
        """Whether the first seed keeps every limit."""
        found = yield from self._hopeless(replicas, rate_per_s)
        if found is None:
            found = self._verdict((yield from self._with_seeds(replicas, rate_per_s, 1)))
        return not found.refused and not found.breaks_a_limit

    def _hopeless(self, replicas: int, rate_per_s: float) -> Generator[Asked, Told, Verdict | None]:
        """The verdict of a short run where that is enough; None where it tells nothing.

        It begins with nobody there, so that what breaks a limit by far at first does so by more
        later on; and such runs, whose queue grows and whose cache is full, are the dearest.
        """
        requests = self._requests_of(replicas, rate_per_s)
        short = max(SHORT_REQUESTS, (requests or 0) // SHORT_PART)
        if requests is None or short >= requests:
            return None
        found = self._verdict((yield from self._runs_of(replicas, rate_per_s, short, 1)))
        is_hopeless = found.refused or (found.breaks_a_limit and _is_hopeless(found))
        return found if is_hopeless else None

    def judge(self, replicas: int, rate_per_s: float) -> Generator[Asked, Told, Verdict]:
        """The verdict of several seeds; more of them, or longer runs, while it is undecided."""
        hopeless = yield from self._hopeless(replicas, rate_per_s)
        if hopeless is not None:
            return hopeless
        seeds = self._least_seeds(1)
        while True:
            found = self._verdict((yield from self._with_seeds(replicas, rate_per_s, seeds)))
            if found.refused or (found.state == "growing" and found.breaks_a_limit):
                return found
            # A batch may take long to fill up, and a queue that grows breaks any limit at last.
            is_open = found.state != "steady" and not found.breaks_a_limit
            if is_open and self._lengthen(replicas, rate_per_s, found):
                continue
            if seeds < self._least_seeds(seeds):
                seeds = self._least_seeds(seeds)
            elif found.answer == "undecided" and self._may_add_to(seeds, replicas, rate_per_s):
                seeds += 1
            else:
                return found

    def try_out(
        self, replicas: int, rate_per_s: float, factor: float
    ) -> Generator[Asked, Told, Verdict]:
        """What becomes of the objectives at *factor* times the rate, in runs that last as long.

        One seed where it is clear, else the least number of seeds; it may stay undecided.
        """
        requests = self._requests_of(replicas, rate_per_s)
        rate_per_s *= factor
        if requests is not None:
            self._requests.setdefault((replicas, rate_per_s), math.ceil(requests * factor))
        found = self._verdict((yield from self._with_seeds(replicas, rate_per_s, 1)))
        if found.refused or abs(found.tightest.margin) > CLEAR_MARGIN:
            return found
        while found.outcomes and len(found.outcomes) < self._least_seeds(len(found.outcomes)):
            seeds = self._least_seeds(len(found.outcomes))
            found = self._verdict((yield from self._with_seeds(replicas, rate_per_s, seeds)))
        return found

    def _least_seeds(self, so_far: int) -> int:
        """Seeds that a verdict needs.

        The arrivals of a trace are always the same and often so is all the rest; where two seeds
        agreed once, nothing is drawn.
        """
        if self.load.is_trace and self._nothing_is_drawn:
            return 1
        return 2 if self.load.is_trace and so_far == 1 else self.effort.least_seeds

    def _may_add_to(self, seeds: int, replicas: int, rate_per_s: float) -> bool:
        """Whether one seed more may tell more, at a cost that is not out of proportion."""
        most = self.effort.most_seeds
        if (replicas, rate_per_s) in self._requests:
            most = min(most, self.effort.least_seeds + LONG_SEEDS)
        return seeds < most and not self._nothing_is_drawn

    def settings(self, replicas: int, rate_per_s: float) -> dict[str, Any]:
        """What to set in the scenario for the run of the first seed."""
        return self._settings(replicas, rate_per_s, self._requests_of(replicas, rate_per_s))

    def _settings(self, replicas: int, rate_per_s: float, requests: int | None) -> dict[str, Any]:
        return self.load.at(rate_per_s, requests) | {"parallel.dp": replicas}

    def _requests_of(self, replicas: int, rate_per_s: float) -> int | None:
        at_first = self.load.requests_at(rate_per_s, self._alone_s)
        return self._requests.get((replicas, rate_per_s), at_first)

    def _lengthen(self, replicas: int, rate_per_s: float, found: Verdict) -> bool:
        """Let runs at this place be long enough by what was seen; whether that is any longer."""
        at_first = self.load.requests_at(rate_per_s, self._alone_s)
        now = self._requests_of(replicas, rate_per_s)
        if at_first is None or now is None:
            return False
        latency_s = max(each.summary["metrics"]["latency_s"]["mean"] for each in found.outcomes)
        wanted = max(2 * now, math.ceil(LONGER_STAYS * latency_s * rate_per_s))
        self._requests[replicas, rate_per_s] = min(wanted, MOST_LONGER * at_first)
        return self._requests[replicas, rate_per_s] > now

    def _verdict(self, outcomes: list[Outcome]) -> Verdict:
        found = verdict(self.objectives, outcomes, ignores_state=self.load.is_trace)
        self._nothing_is_drawn |= self.load.is_trace and found.is_exact
        return found

    def _with_seeds(
        self, replicas: int, rate_per_s: float, seeds: int
    ) -> Generator[Asked, Told, list[Outcome]]:
        """Outcomes of the first *seeds*, of as many requests as runs of that place have."""
        requests = self._requests_of(replicas, rate_per_s)
        return (yield from self._runs_of(replicas, rate_per_s, requests, seeds))

    def _runs_of(
        self, replicas: int, rate_per_s: float, requests: int | None, seeds: int
    ) -> Generator[Asked, Told, list[Outcome]]:
        """Outcomes of the first *seeds*, none asked for twice."""
        first = self.deployment.scenario.seed
        keys = [(replicas, rate_per_s, requests, (first + each) % SEEDS) for each in range(seeds)]
        new = [key for key in keys if key not in self._outcomes]
        settings = self._settings(replicas, rate_per_s, requests)
        documents = [with_settings(self.document, settings | {"seed": seed}) for *_, seed in new]
        outcomes = yield from self._ask(documents)
        self._outcomes.update(zip(new, outcomes, strict=True))
        return [self._outcomes[key] for key in keys]

    def _ask(self, documents: list[dict[str, Any]]) -> Generator[Asked, Told, Told]:
        if not documents:
            return []
        self.runs += len(documents)
        return (yield [Trial(document, self.objectives) for document in documents])


def _is_hopeless(found: Verdict) -> bool:
    """Whether a limit is broken by so much that noise is no excuse, or by a queue that grows."""
    return found.state == "growing" or found.tightest.margin < -HOPELESS_MARGIN
