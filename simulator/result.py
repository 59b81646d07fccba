"""RunResult: a scenario's prediction, as one JSON object and as a directory on disk."""

import csv
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulator.caveats import caveats
from simulator.cost import outside
from simulator.deployment import Deployment
from simulator.documents import DocumentError, Mistake
from simulator.engine import Replica, simulate
from simulator.fidelity import error_terms, fidelity, interval
from simulator.metrics import summarise
from simulator.roofline import prefill_ops, sample_passes
from simulator.step_cost import ENGINE, CostAccount


@dataclass(frozen=True)
class RunResult:
    """What `run` answers."""

    summary: dict[str, Any]
    """scenario, metrics, interval, time_shares, fidelity, warnings: plain values."""
    replica: Replica

    def to_json(self) -> str:
        """The summary as JSON; equal runs give equal bytes."""
        return json.dumps(self.summary, indent=2, allow_nan=False)


def run(deployment: Deployment) -> RunResult:
    """Simulate *deployment* and sum it up."""
    replica = simulate(deployment)
    ops = [op for sample in sample_passes(deployment) for op in sample.ops]
    ops += prefill_ops(deployment)
    engine_share = replica.account.seconds_by_bound.get(ENGINE, 0.0) / replica.account.total_s
    metrics = summarise(replica.records)
    terms = error_terms(deployment, replica.account, ops)
    summary = {
        "scenario": deployment.scenario.document(),
        "metrics": metrics,
        "interval": interval(metrics["output_tokens_per_s"], terms),
        "time_shares": time_shares(replica.account),
        "fidelity": fidelity(deployment, replica.account, ops),
        "warnings": caveats(deployment, metrics, engine_share) + outside(deployment.hardware, ops),
    }
    return RunResult(summary, replica)


def time_shares(account: CostAccount) -> dict[str, dict[str, float]]:
    """Share of the run's time by pass and operation, and by what bounds it."""
    by_op = sorted(account.seconds_by_op.items(), key=lambda item: -item[1])
    return {
        "by_operation": {f"{p}: {op}": s / account.total_s for (p, op), s in by_op if s > 0},
        "by_bound": {b: s / account.total_s for b, s in account.seconds_by_bound.items()},
    }


def check_new(folder: Path) -> None:
    """Raise DocumentError when there is something at *folder* already, or can never be."""
    try:
        what = "exists already; choose a new folder" if folder.exists() else ""
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
    if what:
        raise DocumentError(str(folder), [Mistake("", what)])


def write(result: RunResult, folder: Path) -> None:
    """Write result.json, scenario.yaml, requests.csv and steps.csv into a new *folder*.

    The folder appears whole or not at all; raises DocumentError when something is there already
    or it cannot be written.
    """
    check_new(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".blockcast-") as scratch:
            draft = Path(scratch) / "result"
            draft.mkdir()
            (draft / "result.json").write_text(result.to_json() + "\n", encoding="utf-8")
            scenario = yaml.safe_dump(result.summary["scenario"], sort_keys=False)
            (draft / "scenario.yaml").write_text(scenario, encoding="utf-8")
            _write_rows(draft / "requests.csv", result.replica.records.requests)
            _write_rows(draft / "steps.csv", result.replica.records.steps)
            shutil.move(draft, folder)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise DocumentError(str(folder), [Mistake("", what)]) from error


def _write_rows(path: Path, records: Iterable[Any]) -> None:
    rows = [dataclasses.asdict(record) for record in records]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
