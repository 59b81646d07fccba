"""Words: values beside their limits, and why a verdict is what it is."""

import math

from simulator.plan.objective import Objective
from simulator.plan.verdict import Estimate, Verdict


def amount(objective: Objective, value: float) -> str:
    """A value with its unit."""
    if math.isinf(value):
        return "for ever"
    if objective.is_time:
        return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
    if objective.is_share:
        return f"{100 * value:.4g} %"
    return f"{value:.5g}/s"


def beside_limit(objective: Objective, value: float) -> str:
    """A value of the objective and what it may be."""
    return f"{objective.name} {amount(objective, value)} ({limit(objective)})"


def limit(objective: Objective) -> str:
    """What the objective may be."""
    return f"{'at least' if objective.is_floor else 'at most'} {amount(objective, objective.limit)}"


def estimated(estimate: Estimate) -> str:
    """The mean over seeds and how far off it may be."""
    if estimate.mean is None:
        return "no value"
    spread = f" +- {amount(estimate.objective, estimate.half_width)}" if estimate.half_width else ""
    return f"{amount(estimate.objective, estimate.mean)}{spread}"


def shortfall(found: Verdict) -> str:
    """Why *found* is not `met`."""
    if found.refused:
        return found.refused
    if found.state == "growing" and not found.breaks_a_limit:
        return "the queue grows without bound"
    wrong = [each for each in found.estimates if each.answer != "met"]
    if not wrong:
        return "the runs are too short to tell whether the queue grows; more --requests would"
    return ", ".join(
        f"{each.objective.name} {estimated(each)} ({limit(each.objective)})" for each in wrong
    )
