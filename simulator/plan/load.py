"""Load: the open load of a plan at one rate or another, and alone on an idle replica."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simulator.deployment import Deployment, build
from simulator.documents import DocumentError, Mistake

IDLE_RATE_PER_S: Final = 1e-4
"""Or that share of a trace's own rate: requests no longer meet."""
IDLE_REPLICAS: Final = 16
"""For requests of a trace that arrive at one instant."""
IDLE_REQUESTS: Final = 200
LEAST_REQUESTS: Final = 2000
STAYS: Final = 6
"""A generated run lasts so many times as long as a request alone takes, at least."""
WHOLE_TRACE: Final = {"measure": {"warm_up": "none", "drain": "include"}}
"""Every request of a trace is one to be served."""


@dataclass(frozen=True)
class Load:
    """Who comes and how often: the settings that put it into a scenario."""

    section: Mapping[str, Any]
    """`workload` of a scenario: an open load."""
    own_rate_per_s: float | None
    """That *section* has; None where it has none of its own."""
    least_requests: int | None
    """In a generated run; None where *section* says how many there are."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """What else must be set so that the right requests count."""
    note: str = ""

    @property
    def is_trace(self) -> bool:
        """Whether requests come as a file says."""
        return bool(self.section["kind"] == "trace")

    @property
    def varies(self) -> bool:
        """Whether some of its requests need not be like the others."""
        return self.is_trace or self.section.get("lengths") is not None

    def requests_at(self, rate_per_s: float, alone_s: float) -> int | None:
        """How many a generated run begins with, where a request alone takes *alone_s*."""
        if self.least_requests is None:
            return None
        return max(self.least_requests, math.ceil(STAYS * alone_s * rate_per_s))

    def at(self, rate_per_s: float, requests: int | None = None) -> dict[str, Any]:
        """The settings that make it a load of *rate_per_s*, of so many *requests* if given."""
        section = dict(self.section)
        if self.own_rate_per_s is not None and math.isclose(rate_per_s, self.own_rate_per_s):
            rate_per_s = self.own_rate_per_s
        elif self.is_trace:
            section["rate_scale"] = self._scale(rate_per_s / (self.own_rate_per_s or 1.0))
        if not self.is_trace:
            section["rate_per_s"] = float(rate_per_s)
            if requests is not None:
                section["requests"] = requests
        return {"workload": section, **self.measured}

    def idle(self) -> dict[str, Any]:
        """The settings with which some requests meet nobody: no time can be shorter."""
        section = dict(self.section)
        if self.is_trace:
            section["rate_scale"] = self._scale(IDLE_RATE_PER_S)
            section["requests"] = min(IDLE_REQUESTS, section.get("requests") or IDLE_REQUESTS)
            return {"workload": section, "parallel.dp": IDLE_REPLICAS, **self.measured}
        for name in ("cv", "duration_s"):
            section.pop(name, None)
        section |= {"kind": "constant", "rate_per_s": IDLE_RATE_PER_S, "requests": IDLE_REQUESTS}
        return {"workload": section, "parallel.dp": 1, **self.measured}

    def _scale(self, factor: float) -> float:
        return float(self.section.get("rate_scale", 1.0) * factor)


def load_of(document: Mapping[str, Any], deployment: Deployment, requests: int | None) -> Load:
    """The open load of a scenario, of so many *requests* where that is said.

    A closed load is made an open one: independent requests of the same lengths. Raises
    DocumentError where there is none that a plan can be for.
    """
    workload = deployment.scenario.workload
    if workload.kind == "closed":
        return _opened(workload, requests)
    if workload.is_closed:
        what = f"{workload.kind} requests have no rate; a plan is for poisson, gamma, constant "
        raise DocumentError("plan", [Mistake("workload.kind", f"{what}or trace")])
    section = dict(document["workload"])
    if requests is not None:
        section |= {"requests": requests}
        section.pop("duration_s", None)
    if workload.kind == "trace":
        measured = {} if "measure" in document else WHOLE_TRACE
        if requests is not None:
            # The first so many have a rate of their own.
            deployment = build(dict(document) | {"workload": section}, "plan")
        return Load(section, _rate_per_s(deployment), None, measured)
    least = None if requests or workload.duration_s else workload.requests
    return Load(section, workload.rate_per_s, least)


def _opened(closed: Any, requests: int | None) -> Load:  # noqa: ANN401 (its Parameters)
    section = {
        "kind": "poisson",
        "rate_per_s": 1.0,
        "requests": requests or LEAST_REQUESTS,
        "prompt_tokens": closed.prompt_tokens,
        "output_tokens": closed.output_tokens,
    }
    note = "the closed load was made an open one: Poisson arrivals, the same lengths"
    return Load(section, None, None if requests else LEAST_REQUESTS, note=note)


def _rate_per_s(deployment: Deployment) -> float:
    """Requests a second of a trace as the scenario has it; raises DocumentError without a span."""
    survey = deployment.scenario.workload.survey
    if survey.span_s <= 0:
        what = "all of its requests arrive at one instant, which is no rate"
        raise DocumentError("plan", [Mistake("workload.file", what)])
    return float((survey.n_requests - 1) / survey.span_s)


def full_replica(deployment: Deployment) -> dict[str, Any]:
    """The settings that keep one replica as full as it can be, where a search may begin."""
    example = deployment.example
    users = min(deployment.max_batch, max(1, deployment.largest_batch(example.total_tokens)))
    workload = {
        "kind": "closed",
        "concurrency": users,
        "requests": 2 * users,
        "prompt_tokens": example.prompt_tokens,
        "output_tokens": example.output_tokens,
    }
    return {"workload": workload, "parallel.dp": 1, "disaggregation": None}
