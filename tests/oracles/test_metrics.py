"""Every metric on records written by hand, expected as numbers worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from simulator.measure import WHOLE, Window
from simulator.metrics import EXACT, Machines, summarise
from simulator.records import BLOCK, RejectedRecord, RequestRecord, RunRecords, StepRecord
from simulator.slo import Slo
from simulator.tally import distribution


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
    return StepRecord(start, seconds, False, rows, rows, 4 * rows, emitted, 2, kv)  # noqa: FBT003


def run_of(
    requests: Sequence[tuple[RequestRecord, Sequence[float]]],
    steps: Sequence[StepRecord],
    rejected: Sequence[RejectedRecord] = (),
) -> RunRecords:
    """Records of *requests*, each with its gaps between emissions, and of *steps*."""
    records = RunRecords()
    for record, gaps in requests:
        records.add_request(record, np.array(gaps))
    for each in steps:
        arrays = {name: np.array([getattr(each, name)]) for name in BLOCK[:-1]}
        records.add_steps(
            **arrays,
            kv_used_bytes=np.array([each.kv_used_bytes]),
            forwards=each.forwards,
            prefill=each.prefill,
            replica=each.replica,
        )
    for each_rejected in rejected:
        records.rejected.append(each_rejected)
    return records


RECORDS = run_of(
    [
        (request(0, 11, (1.0, 1.0, 2.0, 7.0), 1, 4), [2.0, 3.0]),
        (request(1, 5, (2.0, 3.0, 4.0, 6.0), 1, 2), [2.0]),
        # Everything comes out at once, so there is no time per further token.
        (request(2, 4, (3.0, 7.0, 9.0, 9.0), 4, 1), []),
    ],
    [
        StepRecord(1.0, 1.0, prefill=True, batch_rows=1, rows=1, query_tokens=100, emitted_tokens=1,
                   forwards=1, kv_used_bytes=100.0),
        step(2.0, 2.0, 2, 6, 300.0),
        step(4.0, 3.0, 2, 9, 300.0),
        step(7.0, 2.0, 1, 4, 50.0),
    ],
)  # fmt: skip
WINDOW = Window(2.0, 7.0, "2 s to 7 s")


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
    assert metrics["window"] == WHOLE


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


def test_rates_per_gpu() -> None:
    """2.5 tokens a second from two replicas of two GPUs."""
    metrics = summarise(RECORDS, machines=Machines(replicas=2, gpus=4))

    assert metrics["output_tokens_per_s_per_gpu"] == 0.625


def test_times_in_the_queue() -> None:
    """0, 1 and 4 s from arrival to admission."""
    queueing = summarise(RECORDS)["queueing_s"]

    assert queueing == pytest.approx(
        {"mean": 5 / 3, "p50": 1.0, "p90": 3.4, "p95": 3.7, "p99": 3.94}, rel=1e-12
    )


def test_gaps_between_tokens() -> None:
    """14 tokens after the first in 7 s: 2, 3 and 2 s, and eleven that come with another."""
    gaps = summarise(RECORDS)["inter_token_s"]

    assert gaps["mean"] == pytest.approx(0.5, rel=1e-12)
    # Order statistics 11 and 12 of 0 to 13 are 2 and 2, number 13 is 3; p90 is at 11.7.
    assert (gaps["p50"], gaps["p90"]) == (0.0, 2.0)
    assert gaps["p99"] == pytest.approx(2.87, rel=1e-12)
    assert summarise(RECORDS)["percentiles"] == EXACT


def test_requests_in_the_system() -> None:
    """They stay 6, 4 and 6 s of the 8."""
    assert summarise(RECORDS)["requests_in_system"] == 2.0


def test_busy_shares() -> None:
    """A replica that steps all the time beside one that has 2 of the 8 seconds to do, and none."""
    steps = [*RECORDS.steps, replace(step(3.0, 2.0, 1, 0, 0.0), replica=1)]
    metrics = summarise(run_of([(r, []) for r in RECORDS.requests], steps), machines=Machines(3, 3))

    assert metrics["busy_share_by_replica"] == [1.0, 0.25, 0.0]
    assert metrics["busy_share"] == pytest.approx(1.25 / 3, rel=1e-12)


def test_share_of_the_cache() -> None:
    """212.5 bytes in the mean, of 850."""
    metrics = summarise(RECORDS, machines=Machines(kv_capacity_bytes=850.0))

    assert metrics["kv_used_share"] == 0.25
    assert summarise(RECORDS)["kv_used_share"] is None


def test_goodput() -> None:
    """Two of four answer within 2 s, one of those is through within 5; the rejected one counts."""
    rejected = [RejectedRecord(3, 8.0, 10**6, 1, "too long")]
    records = run_of([(r, []) for r in RECORDS.requests], RECORDS.steps, rejected)

    assert summarise(records)["goodput"] is None
    first = summarise(records, slo=Slo(ttft=2.0))["goodput"]
    assert first == {"share": 0.5, "requests_per_s": 0.25}
    both = summarise(records, slo=Slo(ttft=2.0, latency=5.0))["goodput"]
    assert both == {"share": 0.25, "requests_per_s": 0.125}
    # Half a second a token for two, and the third has no time per token.
    assert summarise(records, slo=Slo(tpot=0.5))["goodput"]["share"] == 0.75
    assert summarise(records, slo=Slo(queueing=0.5))["goodput"]["share"] == 0.25


def test_counts() -> None:
    """What arrived is finished or rejected; 50 of 300 prompt tokens were in the cache."""
    again = [
        r._replace(preemptions=r.request, cached_prefix_tokens=25 * (r.request < 2))
        for r in RECORDS.requests
    ]
    rejected = [RejectedRecord(3, 8.0, 10**6, 1, "too long")]
    metrics = summarise(run_of([(r, []) for r in again], RECORDS.steps, rejected))

    assert metrics["requests_arrived"] == 4
    assert metrics["requests_finished"] == metrics["requests_measured"] == 3
    assert metrics["requests_rejected"] == 1
    assert metrics["preemptions"] == 3
    assert metrics["prefix_hit_rate"] == pytest.approx(1 / 6, rel=1e-12)


def test_a_window() -> None:
    """From 2 to 7 s: two requests arrive, two others finish, 5 s are busy with two rows."""
    metrics = summarise(RECORDS, WINDOW, slo=Slo(latency=5.0))

    assert metrics["simulated_s"] == 5.0
    assert metrics["output_tokens_per_s"] == pytest.approx(16 / 5, rel=1e-12)
    assert metrics["requests_per_s"] == pytest.approx(0.4, rel=1e-12)
    assert metrics["latency_s"]["mean"] == 5.0
    assert metrics["ttft_s"]["mean"] == 4.0
    assert metrics["goodput"] == {"share": 0.5, "requests_per_s": 0.2}
    assert metrics["busy_share"] == 1.0
    assert metrics["batch_rows"] == pytest.approx(2.0, rel=1e-12)
    assert metrics["kv_used_bytes"] == pytest.approx(300.0, rel=1e-12)
    assert metrics["prefill_time_share"] == 0.0
    # The first is there for 5 s, the second for 4, the third for 4.
    assert metrics["requests_in_system"] == pytest.approx(13 / 5, rel=1e-12)
    assert (metrics["requests_measured"], metrics["requests_finished"]) == (2, 3)
    assert (metrics["steps"], metrics["output_tokens"]) == (3, 20)
    assert metrics["window"] == WINDOW.sentence


def test_a_run_without_a_request_has_no_metrics() -> None:
    """Where everything was rejected, rates are zero and nothing has a mean."""
    metrics = summarise(run_of([], [], [RejectedRecord(0, 1.0, 10, 10, "too long")]))

    assert metrics["output_tokens_per_s"] == metrics["requests_per_s"] == 0.0
    assert metrics["requests_rejected"] == metrics["requests_arrived"] == 1
    nothing = ("ttft_s", "latency_s", "inter_emission_s", "step_latency_s", "tokens_per_forward")
    assert all(metrics[name] is None for name in (*nothing, "batch_rows", "prefix_hit_rate"))


def test_every_metric_is_known_here() -> None:
    """A new metric needs an expectation above."""
    assert set(summarise(RECORDS)) == {
        "output_tokens_per_s",
        "output_tokens_per_s_per_request",
        "output_tokens_per_s_per_gpu",
        "requests_per_s",
        "ttft_s",
        "tpot_s",
        "latency_s",
        "queueing_s",
        "goodput",
        "inter_emission_s",
        "inter_token_s",
        "percentiles",
        "step_latency_s",
        "tokens_per_forward",
        "tokens_per_forward_with_prefill",
        "tokens_per_step",
        "forwards",
        "steps",
        "prefill_forwards",
        "batch_rows",
        "kv_used_bytes",
        "kv_used_share",
        "prefill_time_share",
        "busy_share",
        "busy_share_by_replica",
        "requests_in_system",
        "output_tokens",
        "requests_arrived",
        "requests_finished",
        "requests_rejected",
        "requests_measured",
        "preemptions",
        "prefix_hit_rate",
        "simulated_s",
        "window",
    }


def test_nothing_has_no_distribution() -> None:
    """Without values there is no mean."""
    assert distribution([]) is None
