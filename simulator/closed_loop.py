"""Closed loop: a real decoder's runs predicted from kernels, an engine's overhead and their traces.

Two kinds of runs go in. Those on an *empty* model, beside a profile of its kernels, give the
overhead; those on the real one give only their traces, and the times that they are compared with.
"""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml
from scipy.optimize import nnls

from simulator import library
from simulator.calibrate import rounded, write
from simulator.deployment import Deployment, build
from simulator.documents import DocumentError, Mistake
from simulator.engine import Simulated, simulate
from simulator.engine_profile import Calibration, EngineProfile, Overhead
from simulator.metrics import summarise
from simulator.ops import FloatArray

ENGINE: Final = "reference"
FITTED: Final = ("pass_s", "row_s", "logit_s", "emission_s")
ADAPTED: Final = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True)
class Run:
    """What a decoder did and took, batch after batch."""

    case: str
    policy: str
    settings: Mapping[str, Any]
    batch: int
    is_empty: bool
    trace: Path
    shape: Mapping[str, Any]
    """Of the model, as its checkpoint says."""
    context_tokens: int
    batches_s: Sequence[Sequence[float]]
    """Of each batch, seconds before its first forward, and of each forward with what follows it."""
    latency_s: Sequence[float]
    """Of each request, from its batch's beginning on."""
    whole_s: Sequence[float] = ()
    """Of every repeat."""
    wall_s: Sequence[float] = ()

    @property
    def seconds(self) -> float:
        """Of all batches."""
        return float(sum(map(sum, self.batches_s)))

    @property
    def forward_s(self) -> FloatArray:
        """Every forward in order; what comes before a batch's first is counted with it."""
        joined = [(begin + first, *rest) for begin, first, *rest in self.batches_s]
        return np.array([seconds for batch in joined for seconds in batch])


def model_document(shape: Mapping[str, Any], context_tokens: int) -> dict[str, Any]:
    """A model file for a checkpoint of *shape*."""
    layers = [
        {
            "count": layer["count"],
            "attention": {
                name: layer[name]
                for name in ("query_heads", "kv_heads", "head_dim", "qk_norm", "shared_key_value")
            }
            | ({"window_tokens": layer["window_tokens"]} if layer["window_tokens"] else {}),
            "ffn": layer["ffn"],
        }
        for layer in shape["layers"]
    ]
    document = {
        "name": "reference",
        "source": "the checkpoint's shape",
        "hidden": shape["hidden"],
        "vocab": shape["vocab"],
        "layers": layers,
        "tied_embedding": shape["tied"],
        "max_context_tokens": context_tokens,
    }
    if shape["adapter_rank"]:
        adapter = {"rank": shape["adapter_rank"], "targets": list(ADAPTED)}
        document["adapters"] = {"own": adapter | {"source": "the drafter's shape"}}
    return document


@dataclass(frozen=True)
class Folder:
    """Where the files lie that scenarios name."""

    path: Path

    def model(self, run: Run) -> Path:
        """The model file of *run*, written where it is not there yet."""
        kind = "empty" if run.is_empty else "real"
        suffix = "-adapted" if run.shape["adapter_rank"] else ""
        file = self.path / f"model-{kind}{suffix}.yaml"
        document = model_document(run.shape, run.context_tokens)
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return file

    def engine(self, policy: str) -> Path:
        """The engine profile of a policy."""
        return self.path / f"engine-{policy}.yaml"

    def scenario(self, run: Run, hardware: Path, engine: str) -> dict[str, Any]:
        """*run* as a scenario: its trace, replayed."""
        return {
            "model": str(self.model(run)),
            "hardware": str(hardware),
            "engine": engine,
            "precision": {"weights": "fp32", "kv": "fp32"},
            "decode": {"policy": run.policy, "trace": str(run.trace)},
            "batching": {"max_batch": run.batch},
            "workload": {"kind": "captured", "concurrency": run.batch},
        }


def fit_overhead(runs: Sequence[Run], hardware: Path, folder: Folder) -> EngineProfile:
    """What the reference engine adds to kernels, by runs of one policy on the empty model.

    *hardware* has the empty model's kernels. Least squares of relative errors over all steps, no
    parameter below zero: a step takes its kernels and so much of each overhead as it counts. Raises
    DocumentError where a replay does not take the forwards that the decoder did.
    """
    base: EngineProfile = library.ENGINES.get(ENGINE)
    counts, kernels, measured = zip(*(_steps(run, hardware, folder) for run in runs), strict=True)
    taken, left = np.concatenate(measured), np.concatenate(measured) - np.concatenate(kernels)
    weighed = np.concatenate(counts) / taken[:, None]
    scale = np.abs(weighed).max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(weighed / scale, left / taken)
    values = found / scale
    errors = np.abs(np.concatenate(counts) @ values - left) / taken
    return replace(
        base,
        overhead=Overhead(**{n: rounded(float(v)) for n, v in zip(FITTED, values, strict=True)}),
        calibration=Calibration(
            source=f"the reference decoder on an empty model, {runs[0].policy}",
            fitted=FITTED,
            points=len(taken),
            median_residual=rounded(float(np.median(errors))),
            p90_residual=rounded(float(np.percentile(errors, 90))),
            worst_residual=rounded(float(errors.max())),
        ),
    )


def _steps(run: Run, hardware: Path, folder: Folder) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of every step: overhead counts [steps, FITTED], kernels' seconds, and measured seconds."""
    deployment = build(folder.scenario(run, hardware, ENGINE), run.case)
    bare = simulate(deployment)
    kernels = _seconds(bare)
    # Every time is linear in the overheads, so one second of each tells how often it is paid.
    counts = [
        _seconds(simulate(_with(deployment, Overhead(**{name: 1.0})))) - kernels for name in FITTED
    ]
    return np.stack(counts, axis=1), kernels, measured_steps(run, bare)


def _with(deployment: Deployment, overhead: Overhead) -> Deployment:
    return replace(deployment, engine=replace(deployment.engine, overhead=overhead))


def _seconds(run: Simulated) -> FloatArray:
    seconds: FloatArray = run.records.steps.column("seconds")
    return seconds


def measured_steps(run: Run, replay: Simulated) -> FloatArray:
    """The measured forwards of *run* as steps of its replay; raises DocumentError if not as many.

    A step of the replay says how many forwards it is.
    """
    forwards = replay.records.steps.column("forwards")
    taken = run.forward_s
    if forwards.sum() != len(taken):
        what = f"replayed in {forwards.sum()} forwards, decoded in {len(taken)}"
        raise DocumentError(run.case, [Mistake(f"batch {run.batch}", what)])
    return np.add.reduceat(taken, np.cumsum(forwards) - forwards)


@dataclass(frozen=True)
class Row:
    """One run, measured and predicted."""

    policy: str
    parameters: dict[str, Any]
    batch: int
    measured: dict[str, float]
    """step_latency_s, output_tokens_per_s and latency_s, means over the run."""
    predicted: dict[str, float]
    error: float
    """Of output_tokens_per_s: predicted over measured, less one."""
    kernel_share: float
    """Of the predicted time, what kernels take; the rest is the engine's overhead."""
    spread: float
    """Of whole repeats: the slowest over the fastest, less one."""
    fastest_repeat: dict[str, float]
    """output_tokens_per_s of the fastest repeat as a whole, by the clock of *measured* and, as
    wall_output_tokens_per_s, by the wall."""


def compared(run: Run, hardware: Path, folder: Folder) -> Row:
    """*run* predicted from its trace, the profile and the policy's engine, and set beside."""
    document = folder.scenario(run, hardware, str(folder.engine(run.policy)))
    replay = simulate(build(document, run.case))
    found = summarise(replay.records)
    steps = measured_steps(run, replay)
    decodes = ~replay.records.steps.column("prefill")
    requests = replay.records.requests
    served_s = requests.column("finished_s") - requests.column("admitted_s")
    measured = {
        "step_latency_s": float(steps[decodes].mean()),
        "output_tokens_per_s": found["output_tokens"] / run.seconds,
        "latency_s": float(np.mean(run.latency_s)),
    }
    predicted = {
        "step_latency_s": found["step_latency_s"]["mean"],
        "output_tokens_per_s": found["output_tokens_per_s"],
        "latency_s": float(served_s.mean()),
    }
    account = replay.account
    overhead_s = sum(
        seconds for (_, name), seconds in account.seconds_by_op.items() if name == "overhead"
    )
    return Row(
        policy=run.policy,
        parameters=dict(run.settings),
        batch=run.batch,
        measured=measured,
        predicted=predicted,
        error=predicted["output_tokens_per_s"] / measured["output_tokens_per_s"] - 1,
        kernel_share=1 - overhead_s / account.total_s,
        spread=max(run.whole_s) / min(run.whole_s) - 1 if run.whole_s else 0.0,
        fastest_repeat={
            name: found["output_tokens"] / min(repeats)
            for name, repeats in (
                ("output_tokens_per_s", run.whole_s),
                ("wall_output_tokens_per_s", run.wall_s),
            )
            if repeats
        },
    )


def closed_loop(
    runs: Iterable[Run], hardware: Path, empty_hardware: Path, folder: Path
) -> dict[str, Any]:
    """Every run on the real model, measured against predicted, as plain values.

    Writes models and engine profiles into *folder*, which scenarios then name. Raises DocumentError
    for a profile that lacks a kernel, and for traces that do not replay.
    """
    files, known = Folder(folder), list(runs)
    engines = {}
    for policy in dict.fromkeys(run.policy for run in known):
        empty = [run for run in known if run.policy == policy and run.is_empty]
        engines[policy] = fit_overhead(empty, empty_hardware, files)
        write(engines[policy], files.engine(policy))
    rows = [compared(run, hardware, files) for run in known if not run.is_empty]
    errors = np.abs([row.error for row in rows])
    return {
        "rows": [dataclasses.asdict(row) for row in rows],
        "median_error": float(np.median(errors)),
        "worst_error": float(errors.max()),
        "overheads": {
            name: dataclasses.asdict(engine.overhead) for name, engine in engines.items()
        },
        "overhead_residual": {
            name: engine.calibration.median_residual if engine.calibration else None
            for name, engine in engines.items()
        },
    }


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The comparison as CSV, one line a run."""
    flat = [
        {
            "policy": row["policy"],
            "parameters": " ".join(f"{name}={value}" for name, value in row["parameters"].items()),
            "batch": row["batch"],
            **{f"measured_{name}": value for name, value in row["measured"].items()},
            **{f"predicted_{name}": value for name, value in row["predicted"].items()},
            **{name: row[name] for name in ("error", "kernel_share", "spread")},
            **{f"fastest_repeat_{name}": value for name, value in row["fastest_repeat"].items()},
        }
        for row in rows
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)
