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


@pytest.mark.parametrize(
    ("slo", "told"),
    [
        (Slo(ttft=500.0), ["slo.ttft is 500 s, more than 100 times what any request took (2 s)"]),
        (Slo(ttft=200.0), []),
        (Slo(tpot=30.0), ["slo.tpot is 30 s, more than 100 times what any request took (0.2 s)"]),
        # Nobody waited, but a second is not far above a latency of 9 s.
        (Slo(queueing=1.0, latency=10.0), []),
        (Slo(queueing=1000.0), ["slo.queueing is 1000 s, more than 100 times"]),
    ],
)
def test_a_limit_far_above_everything_is_told(slo: Slo, told: list[str]) -> None:
    """Over a hundred times the longest: perhaps milliseconds were meant, which the text shows."""
    times = {
        "ttft": np.array([1.0, 2.0]),
        "tpot": np.array([0.2, np.nan]),
        "latency": np.array([9.0, 8.0]),
        "queueing": np.array([0.0, 0.0]),
    }

    found = list(slo.idle(times))

    assert len(found) == len(told)
    assert all(sentence.startswith(words) for sentence, words in zip(found, told, strict=True))
    assert all(f"write {next(iter(slo.limits.values())):g}ms" in sentence for sentence in found)


def test_limits_on_what_nobody_has_are_not_told() -> None:
    """Where all came out at once there is no time per token, and without requests no time."""
    times = {"ttft": np.array([]), "tpot": np.array([np.nan])}

    assert not list(Slo(ttft=500.0, tpot=500.0).idle(times))


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
