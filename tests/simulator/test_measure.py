"""Which part of a run counts, on records whose part is known, and the words for it."""

from typing import Any

import numpy as np
import pytest

from simulator.documents import check
from simulator.measure import WHOLE, Measure, window_of
from simulator.records import RejectedRecord, RequestRecord, RunRecords


def records_of(arrivals_s: Any, latencies_s: Any) -> RunRecords:
    """Requests that arrive and take as given."""
    records = RunRecords()
    for i, (arrival, latency) in enumerate(zip(arrivals_s, latencies_s, strict=True)):
        end = float(arrival + latency)
        record = RequestRecord(i, 8, 8, float(arrival), float(arrival), end, end, 8, 1, 1, 1)
        records.add_request(record, np.array([]))
    return records


# One a second from 10 s on; the first hundred take longer and longer, the others 5 s.
ARRIVALS = np.arange(1000) + 10.0
LATENCIES = np.minimum(np.arange(1000) / 20, 5.0)
RECORDS = records_of(ARRIVALS, LATENCIES)


def test_closed_loads_count_whole() -> None:
    """From the first arrival to the last finish, whatever else is asked for."""
    for measure in (Measure(), Measure(warm_up=100.0)):
        window = window_of(RECORDS, measure, is_closed=True)

        assert (window.begin_s, window.end_s, window.is_whole) == (10.0, 1014.0, True)
        assert window.sentence == WHOLE


def test_warm_up_and_drain_are_left_out() -> None:
    """The climb is cut off by the rule, and what comes after the last arrival."""
    window = window_of(RECORDS, Measure(), is_closed=False)

    assert window.begin_s == pytest.approx(110.0, abs=5.0)
    assert window.end_s == 1009.0
    assert not window.is_whole
    early = round(window.begin_s - 10.0)
    assert f"warm-up of {early} s ({early} requests) left out by MSER-5" in window.sentence
    assert "drain of 5 s" in window.sentence
    assert "whole run's" in window.sentence


@pytest.mark.parametrize(
    ("measure", "bounds", "told"),
    [
        (Measure(warm_up="none"), (10.0, 1009.0), "no warm-up;"),
        (Measure(warm_up=40.0), (50.0, 1009.0), "warm-up of 40 s (40 requests) left out;"),
        (Measure(warm_up=40.0, drain="include"), (50.0, 1014.0), "drain included"),
    ],
)
def test_what_is_asked_for_is_left_out(
    measure: Measure, bounds: tuple[float, float], told: str
) -> None:
    """No warm-up, or so many seconds of it; the drain is left out or not."""
    window = window_of(RECORDS, measure, is_closed=False)

    assert (window.begin_s, window.end_s) == bounds
    assert told in window.sentence


@pytest.mark.parametrize(
    ("records", "measure"),
    [
        (RECORDS, Measure(warm_up=2000.0)),
        (records_of([3.0], [1.0]), Measure()),
        (records_of(np.zeros(50), np.full(50, 2.0)), Measure(warm_up="none")),
        (records_of(np.arange(100), np.full(100, 90.0)), Measure(warm_up="none")),
    ],
)
def test_too_little_for_a_part_counts_whole(records: RunRecords, measure: Measure) -> None:
    """Where fewer than twenty requests finish in the part, all is measured, and it is said."""
    window = window_of(records, measure, is_closed=False)

    assert window.is_whole
    assert window.sentence.startswith(WHOLE)
    assert "fewer than 20 requests" in window.sentence


def test_rejected_requests_arrive_too() -> None:
    """The window reaches to the last arrival, though that one was rejected."""
    records = records_of(ARRIVALS, LATENCIES)
    records.rejected.append(RejectedRecord(1000, 1200.0, 10**9, 1, "too long"))

    assert window_of(records, Measure(), is_closed=False).end_s == 1200.0
    assert window_of(records, Measure(), is_closed=True).end_s == 1200.0


def test_a_run_of_rejected_requests_has_no_length() -> None:
    """Nothing finished, so there is nothing to measure."""
    records = RunRecords()
    records.rejected.append(RejectedRecord(0, 4.0, 10**9, 1, "too long"))

    window = window_of(records, Measure(), is_closed=False)
    assert (window.begin_s, window.end_s, window.per_s(3)) == (4.0, 4.0, 0.0)
    assert window_of(RunRecords(), Measure(), is_closed=False).length_s == 0.0


@pytest.mark.parametrize(
    ("document", "measure"),
    [
        ({}, Measure()),
        ({"warm_up": "90s", "drain": "include"}, Measure(90.0, "include")),
        ({"warm_up": 2}, Measure(2.0)),
        ({"warm_up": "none"}, Measure("none")),
    ],
)
def test_how_it_is_written(document: dict[str, Any], measure: Measure) -> None:
    """Words, seconds or a quantity."""
    assert check(Measure, document) == (measure, [])


@pytest.mark.parametrize("given", ["soon", -1, 0, True, [1], None, float("inf")])
def test_other_warm_ups_are_refused(given: Any) -> None:
    """The message has the rule and what was given."""
    measure, (mistake,) = check(Measure, {"warm_up": given}, "measure")

    assert measure is None
    assert mistake.where == "measure.warm_up"
    assert mistake.what.startswith("auto, none or a time")
