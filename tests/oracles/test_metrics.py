"""Every metric on records written by hand, expected as numbers worked out by hand."""

import numpy as np
import pytest

from simulator.metrics import WINDOW, distribution, summarise
from simulator.records import RequestRecord, RunRecords, StepRecord


def request(
    index: int, output: int, times: tuple[float, float, float, float], first: int, steps: int
) -> RequestRecord:
    """A record; *times* are arrival, admission, first token and finish. Two passes per step."""
    arrival, admitted, first_token, finished = times
    return RequestRecord(
        request=index,
        prompt_tokens=100,
        output_tokens=output,
        arrival_s=arrival,
        admitted_s=admitted,
        first_token_s=first_token,
        finished_s=finished,
        first_tokens=first,
        decode_steps=steps,
        forwards=2 * steps,
        prefill_forwards=1,
    )


def step(start: float, seconds: float, rows: int, emitted: int, kv: float) -> StepRecord:
    """A decode step of two forwards."""
    return StepRecord(start, seconds, False, rows, 4 * rows, emitted, 2, kv)  # noqa: FBT003


RECORDS = RunRecords(
    requests=[
        request(0, 11, (1.0, 1.0, 2.0, 7.0), 1, 4),
        request(1, 5, (2.0, 3.0, 4.0, 6.0), 1, 2),
        # Everything comes out at once, so there is no time per further token.
        request(2, 4, (3.0, 7.0, 9.0, 9.0), 4, 1),
    ],
    steps=[
        StepRecord(1.0, 1.0, prefill=True, rows=1, query_tokens=100, emitted_tokens=1, forwards=1,
                   kv_used_bytes=100.0),
        step(2.0, 2.0, 2, 6, 300.0),
        step(4.0, 3.0, 2, 9, 300.0),
        step(7.0, 2.0, 1, 4, 50.0),
    ],
    emission_gaps_s=[np.array([2.0, 3.0]), np.array([2.0]), np.array([])],
)  # fmt: skip


def test_rates() -> None:
    """20 tokens and 3 requests in the 8 s from the first arrival to the last finish."""
    metrics = summarise(RECORDS)

    assert metrics["simulated_s"] == 8.0
    assert metrics["output_tokens"] == 20
    assert metrics["requests_finished"] == 3
    assert metrics["output_tokens_per_s"] == 2.5
    assert metrics["requests_per_s"] == 0.375
    # 11/6, 5/4 and 4/6 tokens a second.
    per_request = (22 + 15 + 8) / 12 / 3
    assert metrics["output_tokens_per_s_per_request"] == pytest.approx(per_request, rel=1e-12)
    assert metrics["window"] == WINDOW


def test_times_to_first_token() -> None:
    """1, 2 and 6 s: percentiles are linear between order statistics."""
    ttft = summarise(RECORDS)["ttft_s"]

    assert ttft == pytest.approx(
        {"mean": 3.0, "p50": 2.0, "p90": 5.2, "p95": 5.6, "p99": 5.92}, rel=1e-12
    )


def test_latencies() -> None:
    """6, 4 and 6 s from arrival to finish."""
    latency = summarise(RECORDS)["latency_s"]

    assert latency == pytest.approx(
        {"mean": 16 / 3, "p50": 6.0, "p90": 6.0, "p95": 6.0, "p99": 6.0}, rel=1e-12
    )


def test_times_per_output_token() -> None:
    """5 s for 10 further tokens and 2 s for 4; the one that came out at once has none."""
    tpot = summarise(RECORDS)["tpot_s"]

    assert tpot == pytest.approx(
        {"mean": 0.5, "p50": 0.5, "p90": 0.5, "p95": 0.5, "p99": 0.5}, rel=1e-12
    )


def test_gaps_between_emissions() -> None:
    """Gaps of all requests together: 2, 3 and 2 s."""
    gaps = summarise(RECORDS)["inter_emission_s"]

    assert gaps == pytest.approx(
        {"mean": 7 / 3, "p50": 2.0, "p90": 2.8, "p95": 2.9, "p99": 2.98}, rel=1e-12
    )


def test_step_latencies() -> None:
    """Decode steps of 2, 3 and 2 s; the prefill is no step."""
    latency = summarise(RECORDS)["step_latency_s"]

    assert latency["mean"] == pytest.approx(7 / 3, rel=1e-12)
    assert latency["p50"] == 2.0


def test_tokens_per_forward() -> None:
    """20 tokens in 7 steps of two forwards, and three prefill forwards besides."""
    metrics = summarise(RECORDS)

    assert metrics["tokens_per_step"] == pytest.approx(20 / 7, rel=1e-12)
    assert metrics["tokens_per_forward"] == pytest.approx(20 / 14, rel=1e-12)
    assert metrics["tokens_per_forward_with_prefill"] == pytest.approx(20 / 17, rel=1e-12)
    assert metrics["steps"] == 3
    assert metrics["forwards"] == 7
    assert metrics["prefill_forwards"] == 1


def test_occupancy_is_weighted_by_time() -> None:
    """1, 2, 2 and 1 rows for 1, 2, 3 and 2 s; the prefill takes an eighth of the time."""
    metrics = summarise(RECORDS)

    assert metrics["batch_rows"] == pytest.approx((1 + 4 + 6 + 2) / 8, rel=1e-12)
    assert metrics["kv_used_bytes"] == pytest.approx((100 + 600 + 900 + 100) / 8, rel=1e-12)
    assert metrics["prefill_time_share"] == 0.125


def test_every_metric_is_known_here() -> None:
    """A new metric needs an expectation above."""
    assert set(summarise(RECORDS)) == {
        "output_tokens_per_s",
        "output_tokens_per_s_per_request",
        "requests_per_s",
        "ttft_s",
        "tpot_s",
        "latency_s",
        "inter_emission_s",
        "step_latency_s",
        "tokens_per_forward",
        "tokens_per_forward_with_prefill",
        "tokens_per_step",
        "forwards",
        "steps",
        "prefill_forwards",
        "batch_rows",
        "kv_used_bytes",
        "prefill_time_share",
        "output_tokens",
        "requests_finished",
        "simulated_s",
        "window",
    }


def test_nothing_has_no_distribution() -> None:
    """Without values there is no mean."""
    assert distribution([]) is None
