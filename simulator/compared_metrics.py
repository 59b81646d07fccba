"""Compared metrics: which numbers of a run can be asked for by name, and in which unit each is.

A distribution goes by its own name for its mean, and by one of its levels: `ttft_s`, `ttft_p99_s`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from simulator.documents import known
from simulator.tally import PERCENTILES

SHARE: Final = "share"

NUMBERS: Final[Mapping[str, str]] = {
    "output_tokens_per_s": "tokens/s",
    "output_tokens_per_s_per_request": "tokens/s",
    "output_tokens_per_s_per_gpu": "tokens/s",
    "requests_per_s": "requests/s",
    "tokens_per_forward": "tokens",
    "tokens_per_forward_with_prefill": "tokens",
    "tokens_per_step": "tokens",
    "steps": "steps",
    "forwards": "forwards",
    "prefill_forwards": "forwards",
    "batch_rows": "requests",
    "requests_in_system": "requests",
    "requests_rejected": "requests",
    "preemptions": "times",
    "kv_used_bytes": "B",
    "kv_used_share": SHARE,
    "prefill_time_share": SHARE,
    "busy_share": SHARE,
    "prefix_hit_rate": SHARE,
    "simulated_s": "s",
}
"""Unit of each metric that is one number."""

DISTRIBUTIONS: Final = (
    "ttft_s",
    "tpot_s",
    "latency_s",
    "queueing_s",
    "inter_emission_s",
    "inter_token_s",
    "step_latency_s",
)
"""All in seconds."""

LEVELS: Final = ("mean", *(f"p{level}" for level in PERCENTILES))

GOODPUT: Final[Mapping[str, tuple[str, str]]] = {
    "goodput": ("share", SHARE),
    "goodput_share": ("share", SHARE),
    "goodput_requests_per_s": ("requests_per_s", "requests/s"),
}
"""Part of the goodput and unit; there is none without an `slo`."""

# The interval of a run is that of its steps; queues and limits answer otherwise to longer ones.
_STEPPED: Final = (
    *("output_tokens_per_s", "output_tokens_per_s_per_request", "output_tokens_per_s_per_gpu"),
    *("tpot_s", "latency_s", "inter_emission_s", "inter_token_s", "step_latency_s"),
)


def level_name(distribution: str, level: str) -> str:
    """What a level of a *distribution* of seconds is called, the unit last: `ttft_p99_s`."""
    return f"{distribution.removesuffix('_s')}_{level}_s"


def _levels() -> dict[str, tuple[str, str]]:
    """Distribution and level, by name."""
    named = {level_name(name, level): (name, level) for name in DISTRIBUTIONS for level in LEVELS}
    return {name: (name, "mean") for name in DISTRIBUTIONS} | named


_LEVELS: Final[Mapping[str, tuple[str, str]]] = _levels()
NAMES: Final = (*NUMBERS, *_LEVELS, *GOODPUT)


def _checked(name: str) -> str:
    if name not in NAMES:
        raise ValueError(known(name, NAMES, "metric"))
    return name


ComparedMetric = Annotated[str, AfterValidator(_checked)]
"""A field that is one of NAMES."""


def unit_of(name: str) -> str:
    """The unit of the metric *name*: `s`, `share`, `tokens/s` and so on."""
    return GOODPUT[name][1] if name in GOODPUT else NUMBERS.get(name, "s")


def value_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """The metric *name* of a run's *metrics*; None where the run has none."""
    if name in NUMBERS:
        value = metrics[name]
    else:
        whole, part = ("goodput", GOODPUT[name][0]) if name in GOODPUT else _LEVELS[name]
        value = None if metrics[whole] is None else metrics[whole][part]
    return None if value is None else float(value)


def missing(name: str) -> str:
    """Why a run may have no metric *name*."""
    if name in GOODPUT:
        return f"a run without limits (slo) has no {name}"
    return f"a run without a decode step has no {name}"


def is_of_steps(name: str) -> bool:
    """Whether the metric is as far off as the run's steps are."""
    return (_LEVELS[name][0] if name in _LEVELS else name) in _STEPPED
