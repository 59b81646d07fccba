"""Objective: a limit on a metric of a run, as people write it: `ttft_p99=1s`, `goodput>=99%`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from simulator.compared_metrics import DISTRIBUTIONS, LEVELS
from simulator.documents import DocumentError, Mistake, known, shown
from simulator.quantities import seconds_of

TIMES: Final = tuple(name.removesuffix("_s") for name in DISTRIBUTIONS)
"""Times that a run has a distribution of: any percentile of them, or the mean."""
TALLIED: Final = ("inter_token", "inter_emission", "step_latency")
"""Those that a run counts in buckets, at the percentiles of its tables alone."""
SHARES_AT_LEAST: Final = ("goodput",)
SHARES_AT_MOST: Final = ("kv_used_share", "busy_share")
RATES: Final = ("output_tokens_per_s", "output_tokens_per_s_per_request", "requests_per_s")
"""Rates, of which there is to be at least so much."""
FLOORS: Final = (*SHARES_AT_LEAST, *RATES)
MEAN: Final = "mean"

_WRITTEN = re.compile(r"\s*([A-Za-z0-9_.]+?)\s*(<=|>=|=|<|>)\s*(\S.*?)\s*")
_STATISTIC = re.compile(r"(.+)_(mean|p[^_]*)")


@dataclass(frozen=True)
class Objective:
    """One limit. A time has most seconds; goodput and rates have a least."""

    metric: str
    statistic: str
    """`mean`, `p99` or another percentile of a time; empty for what is one number."""
    limit: float
    """Seconds, a share or a rate."""

    @property
    def name(self) -> str:
        """As people write it: ttft_p99."""
        return "_".join(filter(None, (self.metric, self.statistic)))

    @property
    def column(self) -> str:
        """As a run's tables have it: ttft_p99_s."""
        return f"{self.name}_s" if self.is_time else self.name

    @property
    def is_time(self) -> bool:
        """Whether the limit is seconds."""
        return self.metric in TIMES

    @property
    def is_share(self) -> bool:
        """Whether the limit is a share."""
        return self.metric in {*SHARES_AT_LEAST, *SHARES_AT_MOST}

    @property
    def is_floor(self) -> bool:
        """Whether more is better."""
        return self.metric in FLOORS

    @property
    def percentile(self) -> float | None:
        """0 to 100; None where the statistic is none."""
        return float(self.statistic[1:]) if self.statistic.startswith("p") else None

    def margin(self, value: float) -> float:
        """How much of the limit is left at *value*; negative where it is missed."""
        left = value - self.limit if self.is_floor else self.limit - value
        return left / self.limit


def objectives_of(options: Sequence[str]) -> tuple[Objective, ...]:
    """Objectives as given on a command line; raises DocumentError with every mistake in them."""
    found: list[Objective] = []
    wrong: list[Mistake] = []
    for option in options:
        try:
            objective = _objective(option)
        except ValueError as error:
            wrong.append(Mistake(shown(option), str(error)))
            continue
        if any(each.name == objective.name for each in found):
            wrong.append(Mistake(shown(option), f"{objective.name} is given twice"))
        found.append(objective)
    if wrong:
        raise DocumentError("--slo", wrong)
    return tuple(found)


def _objective(option: str) -> Objective:
    """One of them; raises ValueError with the rule that it breaks."""
    written = _WRITTEN.fullmatch(option)
    if written is None:
        message = "an objective is written ttft_p99=1s, tpot_mean<=30ms or goodput>=0.99"
        raise ValueError(message)
    name, sign, text = written.groups()
    metric, statistic = _metric_of(name)
    is_floor = metric in FLOORS
    if sign != "=" and (sign[0] == ">") != is_floor:
        wanted = "least; write >=" if is_floor else "most; write <="
        message = f"{name} has a {wanted}"
        raise ValueError(message)
    return Objective(metric, statistic, _limit(metric, text))


def _metric_of(name: str) -> tuple[str, str]:
    """Metric and statistic; the unit at the end of a column's name, as ttft_p99_s, is left out."""
    whole = name.removesuffix("_s") if name.removesuffix("_s") in TIMES else name
    short = name.removesuffix("_s")
    match = _STATISTIC.fullmatch(short)
    if match is not None and match[1].removesuffix("_s") in TIMES:
        metric = match[1].removesuffix("_s")
        _check_statistic(metric, match[2])
        return metric, match[2]
    if whole in TIMES:
        message = f"say which: {whole}_p50, {whole}_p99, any percentile, or {whole}_mean"
        raise ValueError(message)
    plain = (*FLOORS, *SHARES_AT_MOST)
    if match is not None and match[1] in plain:
        message = f"{match[1]} is one number of a run and has no {match[2]}"
        raise ValueError(message)
    if name not in plain:
        raise ValueError(known(name, [*(f"{each}_p99" for each in TIMES), *plain], "objective"))
    return name, ""


def _check_statistic(metric: str, statistic: str) -> None:
    """Raise ValueError unless it is the mean or a percentile that *metric* has."""
    if statistic == MEAN:
        return
    if metric in TALLIED and statistic not in LEVELS:
        listed = ", ".join(level for level in LEVELS if level != MEAN)
        message = f"{metric} has {listed} and {MEAN}, got {statistic}"
        raise ValueError(message)
    try:
        level = float(statistic[1:])
    except ValueError:
        level = math.nan
    if not 0 < level < 100:  # noqa: PLR2004 (per cent)
        message = f"a percentile is above 0 and below 100, as p50, p99 or p99.9, got {statistic}"
        raise ValueError(message)


def _limit(metric: str, text: str) -> float:
    """The number, in seconds where it is of a time; raises ValueError."""
    if metric in TIMES:
        number = _number(text)
        return seconds_of(text if number is None else number)
    is_share = metric in {*SHARES_AT_LEAST, *SHARES_AT_MOST}
    percent = _number(text.removesuffix("%")) if is_share and text.endswith("%") else None
    value = _number(text) if percent is None else percent / 100
    if value is None or not 0 < value < math.inf:
        unit = ", or a percentage" if is_share else ""
        message = f"a number above zero{unit} is needed, got {shown(text)}"
        raise ValueError(message)
    if is_share and value > 1:
        message = f"a share is at most 1, got {shown(text)}"
        raise ValueError(message)
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
