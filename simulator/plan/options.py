"""Options of a plan: what a command line may say, checked against each other."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simulator.documents import DocumentError, Mistake, shown
from simulator.plan.objective import Objective, objectives_of
from simulator.scenario import settings_of

DEFAULT_GOODPUT: Final = "goodput>=0.99"
"""Of a scenario that has limits of its own, where no objective is given."""
GROW_WITH_RATE: Final = ("output_tokens_per_s", "requests_per_s")
LEAST_RATE_PER_S: Final = 1e-6
MOST_RATE_PER_S: Final = 1e6


def objectives_for(options: Sequence[str], base: Mapping[str, Any]) -> tuple[Objective, ...]:
    """The objectives given, or goodput by the scenario's own limits; raises DocumentError."""
    has_limits = base.get("slo") is not None
    if not options and not has_limits:
        what = "at least one objective is needed, as --slo ttft_p99=1s --slo tpot_p99=30ms"
        raise DocumentError("--slo", [Mistake("", what)])
    found = objectives_of(options or [DEFAULT_GOODPUT])
    if not has_limits and any(each.metric == "goodput" for each in found):
        what = "goodput counts requests within limits of their own: --set 'slo={ttft: 1s}'"
        raise DocumentError("--slo", [Mistake("goodput", what)])
    return found


def check_question(*, has_rate: bool, has_gpus: bool, seeks_rate: bool) -> None:
    """Raise DocumentError for what is given and sought at once."""
    if has_rate and seeks_rate:
        raise DocumentError("--rate", [Mistake("", "is what --max-rate looks for; give one")])
    if has_gpus and not seeks_rate:
        raise DocumentError("--gpus", [Mistake("", "are what is looked for; for --max-rate only")])


def check_sought(objectives: Sequence[Objective]) -> None:
    """Raise DocumentError for floors that a higher rate helps: there is no highest one to find."""
    wrong = [each.name for each in objectives if each.metric in GROW_WITH_RATE]
    if wrong:
        what = "is more at a higher rate; --max-rate is for limits that a higher rate breaks"
        raise DocumentError("--slo", [Mistake(name, what) for name in wrong])


def rate_of(rate_per_s: float | None) -> float | None:
    """The rate itself; raises DocumentError for one that is none."""
    if rate_per_s is None or LEAST_RATE_PER_S <= rate_per_s <= MOST_RATE_PER_S:
        return rate_per_s
    rule = f"a rate is from {LEAST_RATE_PER_S:g} to {MOST_RATE_PER_S:.0f} per second"
    raise DocumentError("--rate", [Mistake("", f"{rule}, got {rate_per_s}")])


def over_of(options: tuple[str, ...]) -> dict[str, list[Any]]:
    """Fields and the values to compare; raises DocumentError unless each has a list of them."""
    found = settings_of(options, "--over")
    wrong = [
        Mistake(field, f"a list of values is needed, as [4, 8, 16], got {shown(values)}")
        for field, values in found.items()
        if not isinstance(values, list) or not values
    ]
    if wrong:
        raise DocumentError("--over", wrong)
    return found
