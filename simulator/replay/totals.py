"""Totals: what replays of every kind of trace count and tell alike."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simulator.documents import Mistake, known, shown
from simulator.schedule import IntArray
from traces.captured_trace import CapturedTrace
from traces.columns import numbers

BATCH: Final = "batch"
POLICY: Final = "policy"
EXACT: Final = "exact"
MOST_BATCH: Final = 1_000_000


def count_rule(value: object) -> str | None:
    """What is wrong with a number of rows or tokens that a setting gives, if anything is."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BATCH:
        return f"must be a whole number of 1 to {MOST_BATCH}, got {shown(value)}"
    return None


def policy_mistake(policy: object, captured: str, told: Sequence[str]) -> Mistake | None:
    """Why a trace of the *captured* policy, which tells of those *told*, cannot of *policy*."""
    if policy in told:
        return None
    name = policy if isinstance(policy, str) else shown(policy)
    names = ", ".join(told) or "no policy"
    rule = f"a trace of {captured} tells of {names}; {known(name, told, 'such policy')}"
    return Mistake(POLICY, rule)


def batches_of(trace: CapturedTrace, batch: int) -> IntArray:
    """The batch of each request: as captured, or *batch* of them after another."""
    if batch == trace.manifest.batch:
        return numbers(trace.requests, "batch")
    return np.arange(trace.requests.num_rows) // batch


def batch_forwards(batches: IntArray, prefills: IntArray, decodes: IntArray) -> int:
    """A prefill for every batch with a row that has one, and the forwards of its slowest row."""
    which, of = np.unique(batches, return_inverse=True)
    slowest, prefilled = np.zeros((2, len(which)), dtype=np.int64)
    np.maximum.at(slowest, of, decodes)
    np.maximum.at(prefilled, of, prefills)
    return int(slowest.sum() + prefilled.sum())


def plain(summary: object, without: str) -> dict[str, Any]:
    """A replay's summary as what JSON holds, its accuracy among the rest."""
    fields = {name: value for name, value in vars(summary).items() if name != without}
    verdict: dict[str, float | None] = fields.pop("accuracy")
    return fields | verdict | {"warnings": list(fields["warnings"])}
