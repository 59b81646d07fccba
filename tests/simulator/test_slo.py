"""Service-level objectives and how they are written."""

from typing import Any

import numpy as np
import pytest

from simulator.documents import check
from simulator.slo import Slo


def test_limits_may_be_numbers_or_texts() -> None:
    """Seconds, milliseconds, minutes: the same times."""
    slo, mistakes = check(Slo, {"ttft": "1s", "tpot": "30ms", "latency": 90, "queueing": "1.5m"})

    assert not mistakes
    assert slo == Slo(ttft=1.0, tpot=0.03, latency=90.0, queueing=90.0)
    assert slo.limits == {"ttft": 1.0, "tpot": 0.03, "latency": 90.0, "queueing": 90.0}


@pytest.mark.parametrize(
    ("document", "where", "told"),
    [
        ({}, "slo", "name at least one limit of: ttft, tpot, latency, queueing"),
        ({"ttft": 0}, "slo.ttft", "above zero"),
        ({"ttft": "fast"}, "slo.ttft", "got 'fast'"),
        ({"ttft": "1 fortnight"}, "slo.ttft", "with ms, s, m or h"),
        ({"tpot": True}, "slo.tpot", "got True"),
        ({"tpot": float("nan")}, "slo.tpot", "got nan"),
        ({"latency": 10**400}, "slo.latency", "above zero"),
        ({"latency": -1.0}, "slo.latency", "got -1.0"),
        ({"ttfb": 1}, "slo.ttfb", "did you mean ttft or tpot?"),
        ([1], "slo", "a list"),
    ],
)
def test_what_is_no_limit_is_told(document: Any, where: str, told: str) -> None:
    """Each mistake says where it is, the rule, and what was given."""
    slo, mistakes = check(Slo, document, "slo")

    assert slo is None
    assert [mistake.where for mistake in mistakes] == [where]
    assert told in mistakes[0].what


def test_all_limits_must_be_kept() -> None:
    """At the limit is kept, above it is not; what does not apply (nan) keeps any limit."""
    times = {
        "ttft": np.array([1.0, 1.0, 2.0, 0.5]),
        "tpot": np.array([0.1, 0.2, 0.1, np.nan]),
        "latency": np.array([9.0, 9.0, 9.0, 9.0]),
    }

    assert Slo(ttft=1.0, tpot=0.1).met(times).tolist() == [True, False, False, True]
    assert Slo(tpot=0.15).met(times).tolist() == [True, False, True, True]
    assert not Slo(latency=8.9).met(times).any()
