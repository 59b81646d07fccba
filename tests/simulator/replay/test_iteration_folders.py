"""Traces of a user's own: sound ones drive a scenario, senseless ones are refused in words."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.replay.iteration_replay import replay_iterations
from simulator.result import run
from tests.simulator.replay.shipped_iterations import shipped
from tests.strategies import document
from traces.iteration_trace import read_iteration_trace
from traces.writing import write_trace


def written(folder: Path, source: str = "ref-uno-linear-b16-t1", **changes: Any) -> str:
    """A shipped trace in a folder of its own, with fields of its manifest changed."""
    trace = shipped(source)
    fields = dataclasses.asdict(trace.manifest) | changes
    tables = {table: trace.table(table) for table in fields.pop("tables")}
    write_trace(folder / "own", fields, tables)
    return str(folder / "own")


def one_request(folder: Path, *, drafted: int, accepted: int, emitted: int) -> str:
    """A trace of one request, one iteration of which the end of the output cut short."""
    manifest = dataclasses.asdict(shipped("ref-uno-linear-b8-t1").manifest)
    manifest |= {"requests_asked": 1, "block_tokens": 1 + drafted, "accuracy": None}
    ones = dict.fromkeys(("requests", "prefill_forwards", "iterations"), 1)
    ones |= {"draft_forwards": 1, "verify_forwards": 1, "batch_prefill_forwards": 1}
    manifest["counts"] = ones | {"output_tokens": 1 + emitted, "batch_forwards": 3}
    del manifest["tables"]
    request: dict[str, Any] = {"request": 0, "problem": 0, "batch": 0, "row": 0, "prompt_tokens": 4}
    request |= {"output_tokens": 1 + emitted, "iterations": 1, "prefill_forwards": 1}
    request |= {"draft_forwards": 1, "verify_forwards": 1, "finish_reason": "limit"}
    request |= {"correct": None, "valid": None, "output": [5] * (1 + emitted)}
    iteration = {"request": 0, "iteration": 0, "prefix_tokens": 4, "drafted": drafted}
    iteration |= {"nodes": drafted, "accepted": accepted, "emitted": emitted, "cut": True}
    steps = [
        {"iteration": -1, "kind": "prefill", "prefix_tokens": 0, "query_tokens": 4},
        {"iteration": 0, "kind": "draft", "prefix_tokens": 4, "query_tokens": 1 + drafted},
        {"iteration": 0, "kind": "verify", "prefix_tokens": 5, "query_tokens": 1 + drafted},
    ]
    none = dict.fromkeys(("logit_rows", "adapter_tokens", "feature_tokens", "moved_tokens"), 0)
    rows = [{"request": 0, "step": at} | none | step for at, step in enumerate(steps)]
    tables = {"requests": [request], "iterations": [iteration], "steps": rows}
    made = {name: pa.Table.from_pylist(each) for name, each in tables.items()}
    write_trace(folder / "one", manifest, made)
    return str(folder / "one")


def deployed_at(trace: str, **decode: Any) -> Any:
    """A small Uno scenario at the pace of *trace*."""
    return build(document("uno-linear", {"policy": "uno-linear", "trace": trace, **decode}), "test")


def test_a_snapshot_is_used_and_told(tmp_path: Path) -> None:
    """A capture that is still running can be replayed; the result says what it has."""
    trace = written(tmp_path, partial=True, requests_asked=200, name="halfway")

    warnings = run(deployed_at(trace)).summary["warnings"]

    assert "trace halfway is a snapshot of 128 of 200 requests" in warnings


def test_steps_longer_than_the_policy_s_are_refused(tmp_path: Path) -> None:
    """A block of 8 emits 9 tokens at most, whatever a manifest says."""
    trace = written(tmp_path, block_tokens=8)

    with pytest.raises(DocumentError, match=r"has steps of 2 to 17 tokens.* emits 1 to 9"):
        deployed_at(trace)


def test_guaranteed_tokens_that_the_policy_forgoes_are_needed(tmp_path: Path) -> None:
    """The quadratic sampler has a token less than the step it is read off, so one is too few."""
    trace = written(tmp_path, "ref-dflash-b8-t1", policy="uno-linear")
    decode = {"policy": "quadratic", "trace": trace}

    with pytest.raises(DocumentError, match=r"has steps of 0 to 7 tokens"):
        build(document("quadratic", decode), "test")


def test_nothing_is_drawn_where_all_is_cut(tmp_path: Path) -> None:
    """A trace without a whole iteration has no statistics to resample."""
    trace = one_request(tmp_path, drafted=7, accepted=6, emitted=3)

    with pytest.raises(DocumentError, match="has no iteration that the end of an output did not"):
        deployed_at(trace)
    assert replay_iterations(read_iteration_trace(Path(trace)), {}).batch_forwards == 3
    with pytest.raises(DocumentError, match="has no iteration"):
        replay_iterations(read_iteration_trace(Path(trace)), {"block": 7})


def test_a_cut_iteration_is_whole_at_a_block_that_is_not_cut(tmp_path: Path) -> None:
    """At two drafts a step of four tokens fits in what was kept, so it is drawn from."""
    trace = one_request(tmp_path, drafted=7, accepted=6, emitted=5)

    pace = deployed_at(trace, block=3).pace

    assert pace.mean_tokens == 4.0


def test_tables_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    """A changed byte is found before anything is simulated."""
    trace = written(tmp_path)
    table = Path(trace) / "iterations.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"?")

    with pytest.raises(DocumentError, match="SHA-256"):
        deployed_at(trace)
