"""Metrics: what a run's records come to; every metric is defined here and nowhere else.

Requests that arrive in the window are measured: their latencies, and whether they kept an SLO.
Rates are of what finishes in it, occupancies of the steps that start in it. What is counted, tokens
per forward, and the distributions of steps and of gaps between emissions are the whole run's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator.columns import Columns
from simulator.measure import Window, whole_run
from simulator.records import RequestRecord, RunRecords
from simulator.slo import Slo
from simulator.tally import RELATIVE_ERROR, distribution
from simulator.timeline import StepSums

FloatArray = npt.NDArray[np.float64]
Requests = Columns[RequestRecord]

EXACT: Final = "exact"


@dataclass(frozen=True)
class Machines:
    """What the load was served by."""

    replicas: int = 1
    """Those that decode, then those that only fill prompts."""
    gpus: int = 1
    kv_capacity_bytes: float | None = None
    """Of a replica, per GPU."""
    prefill_replicas: int = 0
    """How many of the replicas only fill prompts."""


def time_to_first_token_s(requests: Requests) -> FloatArray:
    """From arrival to the first emission, [requests]."""
    waited: FloatArray = requests.column("first_token_s") - requests.column("arrival_s")
    return waited


def latency_s(requests: Requests) -> FloatArray:
    """From arrival to the finish, [requests]."""
    taken: FloatArray = requests.column("finished_s") - requests.column("arrival_s")
    return taken


def queueing_s(requests: Requests) -> FloatArray:
    """From arrival to the (first) admission to the batch, [requests]."""
    waited: FloatArray = requests.column("admitted_s") - requests.column("arrival_s")
    return waited


def time_per_output_token_s(requests: Requests) -> FloatArray:
    """Mean time per token after those that came out first, [requests]; nan without others."""
    later = requests.column("output_tokens") - requests.column("first_tokens")
    taken = requests.column("finished_s") - requests.column("first_token_s")
    return np.where(later > 0, taken / np.maximum(later, 1), np.nan)


def times_s(requests: Requests) -> dict[str, FloatArray]:
    """What an SLO can limit, by its name there, [requests] each."""
    return {
        "ttft": time_to_first_token_s(requests),
        "tpot": time_per_output_token_s(requests),
        "latency": latency_s(requests),
        "queueing": queueing_s(requests),
    }


def summarise(
    records: RunRecords,
    window: Window | None = None,
    *,
    machines: Machines = Machines(),
    slo: Slo | None = None,
) -> dict[str, Any]:
    """Every metric of a run, by name; times are seconds, rates are per second.

    The *window* is the whole run when absent.
    """
    window = whole_run(records) if window is None else window
    return {
        **_rates(records, window, machines),
        **_latencies(records, window),
        "goodput": None if slo is None else _goodput(records, window, slo),
        "inter_emission_s": records.emission_gaps_s.distribution(),
        "inter_token_s": _between_tokens(records),
        "step_latency_s": records.step_latency_s.distribution(),
        "percentiles": _precision(records),
        **_per_forward(records),
        **_occupancy(records, window, machines),
        **_counts(records, window),
        "simulated_s": window.length_s,
        "window": window.sentence,
    }


def _rates(records: RunRecords, window: Window, machines: Machines) -> dict[str, Any]:
    """What finishes inside the window, over its length, and how fast a request was by itself."""
    requests = records.requests
    output = requests.column("output_tokens")
    finished = window.has(requests.column("finished_s"))
    tokens_per_s = window.per_s(int(output[finished].sum()))
    measured = window.has(requests.column("arrival_s"))
    speeds = (output / latency_s(requests))[measured]
    return {
        "output_tokens_per_s": tokens_per_s,
        "output_tokens_per_s_per_request": float(speeds.mean()) if len(speeds) else None,
        "output_tokens_per_s_per_gpu": tokens_per_s / machines.gpus,
        "requests_per_s": window.per_s(int(finished.sum())),
    }


def _latencies(records: RunRecords, window: Window) -> dict[str, Any]:
    """Distributions over the requests that arrive inside the window."""
    measured = window.has(records.requests.column("arrival_s"))
    per_token = time_per_output_token_s(records.requests)[measured]
    return {
        "ttft_s": distribution(time_to_first_token_s(records.requests)[measured]),
        "tpot_s": distribution(per_token[~np.isnan(per_token)]),
        "latency_s": distribution(latency_s(records.requests)[measured]),
        "queueing_s": distribution(queueing_s(records.requests)[measured]),
    }


def _goodput(records: RunRecords, window: Window, slo: Slo) -> dict[str, Any]:
    """Requests that arrive inside the window and keep every limit: their share, and per second.

    One that was rejected kept none; one whose tokens came out all at once keeps any limit of tpot.
    """
    requests = records.requests
    measured = window.has(requests.column("arrival_s"))
    rejected = int(window.has(records.rejected.column("arrival_s")).sum())
    kept = int(slo.met(times_s(requests))[measured].sum())
    arrived = int(measured.sum()) + rejected
    return {
        "share": kept / arrived if arrived else None,
        "requests_per_s": window.per_s(kept),
    }


def _between_tokens(records: RunRecords) -> dict[str, float] | None:
    """Times between consecutive output tokens; those that come out together have none between.

    The tokens that come out first are left out, so the mean is decode time per token. Times
    between emissions count each emission once, whatever it holds.
    """
    requests = records.requests
    later = int((requests.column("output_tokens") - requests.column("first_tokens")).sum())
    gaps = records.emission_gaps_s
    return gaps.distribution(zeros=max(0, later - len(gaps)))


def _precision(records: RunRecords) -> str:
    """Whether percentiles are exact, or which are not."""
    tallies = {
        "inter_emission_s": records.emission_gaps_s,
        "inter_token_s": records.emission_gaps_s,
        "step_latency_s": records.step_latency_s,
    }
    rough = [name for name, tally in tallies.items() if not tally.is_exact]
    return f"{', '.join(rough)} to {RELATIVE_ERROR:.1%}" if rough else EXACT


def _per_forward(records: RunRecords) -> dict[str, Any]:
    """Tokens per forward and how many there were.

    A request's forwards are the decode passes that it took part in: draft and verify count one
    each, as do store forwards. The token that a prefill samples is not theirs. The second figure
    counts everything: all output over decode and prefill forwards.
    """
    output, sampled, forwards, prefills, decode_steps = (
        int(records.requests.column(name).sum())
        for name in (
            "output_tokens",
            "prefill_emitted_tokens",
            "forwards",
            "prefill_forwards",
            "decode_steps",
        )
    )
    steps = records.timeline.whole
    return {
        "tokens_per_forward": _quotient(output - sampled, forwards),
        "tokens_per_forward_with_prefill": _quotient(output, forwards + prefills),
        "tokens_per_step": _quotient(output - sampled, decode_steps),
        "forwards": round(steps.forwards.sum()),
        "steps": round(steps.steps.sum()),
        "prefill_forwards": round(steps.prefill_forwards.sum()),
    }


def _occupancy(records: RunRecords, window: Window, machines: Machines) -> dict[str, Any]:
    """How much of the replicas is in use, of those that decode where others fill the prompts.

    Requests and cache bytes in a batch are averaged over the time of the steps, the number in the
    system over the window; a replica is busy while it steps. The share of prefill is of the time of
    all replicas.
    """
    timeline = records.timeline
    sums = timeline.whole if window.is_whole else timeline.between(window.begin_s, window.end_s)
    shares = _busy_shares(sums, window, machines.replicas)
    decoders = len(shares) - machines.prefill_replicas
    return {
        **_in_use(sums, slice(decoders), machines),
        "prefill_time_share": _quotient(float(sums.prefill_s.sum()), float(sums.busy_s.sum())),
        "busy_share": float(np.mean(shares[:decoders])),
        "busy_share_by_replica": shares,
        **_prefill_replicas(sums, shares, machines),
        "requests_in_system": _in_system(records.requests, window),
    }


def _in_use(sums: StepSums, chosen: slice, machines: Machines) -> dict[str, float | None]:
    """Means over the steps of the *chosen* replicas."""
    busy_s = float(sums.busy_s[chosen].sum())
    used = _quotient(float(sums.kv_byte_s[chosen].sum()), busy_s)
    capacity = machines.kv_capacity_bytes
    return {
        "batch_rows": _quotient(float(sums.row_s[chosen].sum()), busy_s),
        "kv_used_bytes": used,
        "kv_used_share": used / capacity if capacity and used is not None else None,
    }


def _prefill_replicas(
    sums: StepSums, shares: Sequence[float], machines: Machines
) -> dict[str, Any]:
    """What is in use of the replicas that only fill prompts, and which those are; where any are."""
    fillers = machines.prefill_replicas
    decoders = len(shares) - fillers
    if not fillers:
        return {}
    return {
        "role_by_replica": ["decode"] * decoders + ["prefill"] * fillers,
        "prefill_replicas": {
            **_in_use(sums, slice(decoders, None), machines),
            "busy_share": float(np.mean(shares[decoders:])),
        },
    }


def _busy_shares(sums: StepSums, window: Window, replicas: int) -> list[float]:
    """Share of the window in which each replica steps; the last step may reach beyond it."""
    busy_s = np.zeros(max(replicas, len(sums.busy_s)))
    busy_s[: len(sums.busy_s)] = sums.busy_s
    return [min(1.0, window.per_s(float(seconds))) for seconds in busy_s]


def _in_system(requests: Requests, window: Window) -> float:
    """Time average of the requests that have arrived and not finished."""
    begin = np.maximum(requests.column("arrival_s"), window.begin_s)
    end = np.minimum(requests.column("finished_s"), window.end_s)
    return window.per_s(float(np.maximum(end - begin, 0.0).sum()))


def _counts(records: RunRecords, window: Window) -> dict[str, Any]:
    """Whole numbers of the whole run, and how many of the finished requests are measured."""
    requests = records.requests
    cached, prompts = (
        int(requests.column(name).sum()) for name in ("cached_prefix_tokens", "prompt_tokens")
    )
    return {
        "output_tokens": int(requests.column("output_tokens").sum()),
        "requests_arrived": len(requests) + len(records.rejected),
        "requests_finished": len(requests),
        "requests_rejected": len(records.rejected),
        "requests_measured": int(window.has(requests.column("arrival_s")).sum()),
        "preemptions": int(requests.column("preemptions").sum()),
        "prefix_hit_rate": _quotient(cached, prompts),
    }


def _quotient(amount: float, of: float) -> float | None:
    return amount / of if of else None
