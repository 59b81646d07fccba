"""RunResult: a scenario's prediction, as one JSON object."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.caveats import caveats
from simulator.cost import outside
from simulator.deployment import Deployment
from simulator.engine import Simulated, simulate
from simulator.fidelity import error_terms, fidelity, interval
from simulator.measure import Measure, Window, window_of
from simulator.metrics import Machines, summarise, times_s
from simulator.ran import ops_that_ran
from simulator.records import RunRecords
from simulator.roofline import prefill_ops, sample_passes
from simulator.steady_state import Stays, Steadiness, steadiness
from simulator.step_cost import ENGINE, CostAccount


@dataclass(frozen=True)
class RunResult:
    """What `run` answers."""

    summary: dict[str, Any]
    """scenario, metrics, steady, interval, time_shares, fidelity, warnings: plain values."""
    simulated: Simulated
    window: Window
    """The part of the run that its metrics are of."""

    def to_json(self) -> str:
        """The summary as JSON; equal runs give equal bytes."""
        return json.dumps(self.summary, indent=2, allow_nan=False)


def run(deployment: Deployment, *, keep_steps: bool = True) -> RunResult:
    """Simulate *deployment* and sum it up; without *keep_steps* there is no table of steps."""
    simulated = simulate(deployment, keep_steps=keep_steps)
    ops = [op for sample in sample_passes(deployment) for op in sample.ops]
    ops += prefill_ops(deployment)
    account, records = simulated.account, simulated.records
    scenario = deployment.scenario
    is_closed = scenario.workload.is_closed
    window = window_of(records, scenario.measure, is_closed=is_closed)
    metrics = summarise(records, window, machines=machines_of(deployment), slo=scenario.slo)
    steady = None if is_closed else steadiness(stays_of(records), window.begin_s, window.end_s)
    terms = error_terms(deployment, account, ops)
    engine_share = account.share(account.seconds_by_bound.get(ENGINE, 0.0))
    summary = {
        "scenario": scenario.document(),
        "metrics": metrics,
        "steady": None if steady is None else dataclasses.asdict(steady),
        "interval": interval(
            metrics,
            terms,
            _offered_tokens_per_s(records, steady),
            _filled_share(deployment, metrics),
        ),
        "time_shares": time_shares(account),
        "fidelity": fidelity(deployment, account, ops),
        "warnings": [
            *load_warnings(metrics, steady, scenario.measure),
            *(scenario.slo.idle(times_s(records.requests)) if scenario.slo else ()),
            *caveats(deployment, metrics, engine_share),
            *outside(deployment.hardware, ops_that_ran(deployment, records, account.sizes)),
        ],
    }
    return RunResult(summary, simulated, window)


def machines_of(deployment: Deployment) -> Machines:
    """The replicas of *deployment*, those that only fill prompts included."""
    return Machines(
        replicas=deployment.replicas,
        gpus=deployment.gpus,
        kv_capacity_bytes=deployment.kv_capacity_bytes,
        prefill_replicas=deployment.replicas - deployment.scenario.parallel.dp,
    )


def stays_of(records: RunRecords) -> Stays:
    """When every request that was not rejected came, was admitted and left."""
    names = ("arrival_s", "admitted_s", "finished_s")
    return Stays(*(records.requests.column(name) for name in names))


def _offered_tokens_per_s(records: RunRecords, steady: Steadiness | None) -> float | None:
    """Output tokens that arriving requests ask for; None under closed load."""
    if steady is None:
        return None
    requests = records.requests
    tokens = requests.column("output_tokens").sum()
    return steady.offered_per_s * float(tokens) / max(1, len(requests) + len(records.rejected))


def _filled_share(deployment: Deployment, metrics: Mapping[str, Any]) -> float:
    """Of the batches or the cache, whichever is fuller, what is in use in the mean over time.

    Where prompts are filled by replicas of their own, of those or the others.
    """
    shares = []
    for used in (metrics, metrics.get("prefill_replicas", metrics)):
        rows = (used["batch_rows"] or 0.0) / deployment.most_together
        shares.append(used["busy_share"] * max(rows, used["kv_used_share"] or 0.0))
    return float(max(shares))


def load_warnings(
    metrics: Mapping[str, Any], steady: Steadiness | None, measure: Measure
) -> list[str]:
    """What to know of the load before anything else."""
    told = []
    if steady is not None and steady.state != "steady":
        told.append(steady.sentence)
    if metrics["requests_rejected"]:
        told.append(
            f"{metrics['requests_rejected']} of {metrics['requests_arrived']} requests were "
            "rejected: they could never be served"
        )
    if steady is None and measure != Measure():
        told.append("measure is of open loads: a closed one is measured whole")
    return told


def time_shares(account: CostAccount) -> dict[str, dict[str, float]]:
    """Share of the run's time by pass and operation, and by what bounds it."""
    by_op = sorted(account.seconds_by_op.items(), key=lambda item: -item[1])
    return {
        "by_operation": {f"{p}: {op}": account.share(s) for (p, op), s in by_op if s > 0},
        "by_bound": {b: account.share(s) for b, s in account.seconds_by_bound.items()},
    }
