"""Reasons: why one run comes out ahead of another, in numbers from both accounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREFILL = "prefill"


@dataclass(frozen=True)
class Bound:
    """What bounds most of a run's time, and that share of it."""

    by: str
    share: float


@dataclass(frozen=True)
class Reason:
    """One run against another: its number of decode steps times what each takes."""

    steps_ratio: float
    """Decode steps of the run over those of the other."""
    step_ratio: float
    """Mean seconds of a decode step, over those of the other."""
    operation: str
    """What most of the change of a step is due to; its name in the account."""
    operation_s: float
    """Seconds that the operation takes more in a mean decode step; negative for less."""
    bound: Bound
    other_bound: Bound


def reason(run: Mapping[str, Any], other: Mapping[str, Any]) -> Reason | None:
    """Why *run* (a summary) differs from *other*; None where one of them has no decode step."""
    steps, other_steps = run["metrics"]["steps"], other["metrics"]["steps"]
    if not steps or not other_steps:
        return None
    own_s, other_s = (each["metrics"]["step_latency_s"]["mean"] for each in (run, other))
    operation, operation_s = _largest_change(run, other, is_longer=own_s >= other_s)
    return Reason(
        steps_ratio=steps / other_steps,
        step_ratio=own_s / other_s,
        operation=operation,
        operation_s=operation_s,
        bound=largest_bound(run),
        other_bound=largest_bound(other),
    )


def largest_bound(run: Mapping[str, Any]) -> Bound:
    """What bounds the largest share of a run's time: a limit of the hardware, or the engine."""
    shares = run["time_shares"]["by_bound"]
    if not shares:  # nothing was ever served
        return Bound("nothing", 0.0)
    by, share = max(shares.items(), key=lambda item: item[1])
    return Bound(by, share)


def step_seconds(run: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a mean decode step by operation, passes of a step added up.

    The shares are of all steps, prefill included, so a decode step's mean over the rest is one.
    """
    metrics = run["metrics"]
    whole_s = metrics["step_latency_s"]["mean"] / (1 - metrics["prefill_time_share"])
    sums: dict[str, float] = {}
    for name, share in run["time_shares"]["by_operation"].items():
        step_pass, _, operation = name.partition(": ")
        if step_pass != PREFILL:
            sums[operation] = sums.get(operation, 0.0) + share * whole_s
    return sums


def _largest_change(
    run: Mapping[str, Any], other: Mapping[str, Any], *, is_longer: bool
) -> tuple[str, float]:
    """The operation whose time changes most in the direction that the step does."""
    own, others = step_seconds(run), step_seconds(other)
    changes = {name: own.get(name, 0.0) - others.get(name, 0.0) for name in own | others}
    choose = max if is_longer else min
    return choose(changes.items(), key=lambda item: item[1])
