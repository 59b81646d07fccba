"""Metrics: what a run's records come to; every metric is defined here and nowhere else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.records import RequestRecord, RunRecords, StepRecord

FloatArray = npt.NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)
WINDOW = "whole run: from the first arrival to the last finish, prefill, start and drain included"


def distribution(values: Sequence[float] | FloatArray) -> dict[str, float] | None:
    """Mean and percentiles (linear between order statistics) of *values*; None without any."""
    if len(values) == 0:
        return None
    array = np.asarray(values, dtype=float)
    levels = np.percentile(array, PERCENTILES)
    named = {f"p{p}": float(level) for p, level in zip(PERCENTILES, levels, strict=True)}
    return {"mean": float(array.mean())} | named


def time_to_first_token_s(record: RequestRecord) -> float:
    """From arrival to the first emission."""
    return record.first_token_s - record.arrival_s


def latency_s(record: RequestRecord) -> float:
    """From arrival to the finish."""
    return record.finished_s - record.arrival_s


def time_per_output_token_s(record: RequestRecord) -> float | None:
    """Mean time per token after those that came out first; None when there are no others."""
    later = record.output_tokens - record.first_tokens
    return (record.finished_s - record.first_token_s) / later if later else None


def summarise(records: RunRecords) -> dict[str, Any]:
    """Every metric of a run, by name; times are seconds, rates are per second."""
    requests, steps = records.requests, records.steps
    output = sum(r.output_tokens for r in requests)
    span = max(r.finished_s for r in requests) - min(r.arrival_s for r in requests)
    tpot = [t for t in map(time_per_output_token_s, requests) if t is not None]
    return {
        "output_tokens_per_s": output / span,
        "output_tokens_per_s_per_request": float(
            np.mean([r.output_tokens / latency_s(r) for r in requests])
        ),
        "requests_per_s": len(requests) / span,
        "ttft_s": distribution([time_to_first_token_s(r) for r in requests]),
        "tpot_s": distribution(tpot),
        "latency_s": distribution([latency_s(r) for r in requests]),
        "inter_emission_s": distribution(np.concatenate(records.emission_gaps_s)),
        "step_latency_s": distribution([s.seconds for s in steps if not s.prefill]),
        **_counts(requests, steps),
        **_occupancy(steps),
        "output_tokens": output,
        "requests_finished": len(requests),
        "simulated_s": span,
        "window": WINDOW,
    }


def _counts(requests: Sequence[RequestRecord], steps: Sequence[StepRecord]) -> dict[str, Any]:
    """Tokens per forward and how many there were.

    A request's forwards are the decode passes that it took part in: draft and verify count one
    each, as do store forwards. The token that a prefill samples is not theirs. The second figure
    counts everything: all output over decode and prefill forwards.
    """
    output = sum(r.output_tokens for r in requests)
    decoded = output - sum(r.prefill_emitted_tokens for r in requests)
    forwards = sum(r.forwards for r in requests)
    prefills = sum(r.prefill_forwards for r in requests)
    decode_steps = sum(r.decode_steps for r in requests)
    return {
        "tokens_per_forward": decoded / forwards if forwards else None,
        "tokens_per_forward_with_prefill": output / (forwards + prefills),
        "tokens_per_step": decoded / decode_steps if decode_steps else None,
        "forwards": sum(s.forwards for s in steps),
        "steps": sum(not s.prefill for s in steps),
        "prefill_forwards": sum(s.forwards for s in steps if s.prefill),
    }


def _occupancy(steps: Sequence[StepRecord]) -> dict[str, Any]:
    """Requests and cache bytes in the batch, averaged over the time of the steps."""
    seconds = np.array([s.seconds for s in steps])
    rows = np.array([s.rows for s in steps])
    used = np.array([s.kv_used_bytes for s in steps])
    return {
        "batch_rows": float(np.average(rows, weights=seconds)),
        "kv_used_bytes": float(np.average(used, weights=seconds)),
        "prefill_time_share": float(seconds[[s.prefill for s in steps]].sum() / seconds.sum()),
    }
