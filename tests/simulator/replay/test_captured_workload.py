"""The captured workload: a run repeats a trace's requests, forward by forward."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import batching, library
from simulator.deployment import Deployment, build
from simulator.documents import DocumentError
from simulator.replay.block_pace import BlockPace
from simulator.request import Request
from simulator.result import RunResult, run
from tests.simulator.replay.shipped_blocks import captured_tables, shipped, source_of
from tests.strategies import files_read_once
from traces.columns import numbers

PACKED = (
    "ref-gwd-w3-t0.3",
    "ref-single-block-m0.9",
    "ref-single-block-fused",
    "ref-joint-threshold-m0.7",
    "ref-block-buffer-n3-a0.5-m0.7",
    "ref-multi-block-m0.7",
    "ref-d2f",
    "ref-dmax",
    "ref-block-entropy",
)
SYNCHRONOUS = ("ref-gwd-synchronous-b4", "ref-gwd-synchronous-b32")


@pytest.fixture(autouse=True)
def _files_read_once() -> Iterator[None]:
    with files_read_once():
        yield


def document(name: str, mode: str = "draining", rows: int = 32, **workload: Any) -> dict[str, Any]:
    """A run of a trace's requests on the ideal engine."""
    manifest = shipped(name).manifest
    decode: dict[str, Any] = {"policy": manifest.policy, "trace": name}
    if "store" in manifest.parameters:
        decode["store"] = manifest.parameters["store"]
    return {
        "model": "qwen3-8b",
        "hardware": "h200-sxm",
        "engine": "ideal",
        "decode": decode,
        "batching": {"mode": mode, "max_batch": rows},
        "workload": {"kind": "captured", "concurrency": rows} | workload,
    }


def deployed(name: str, *arguments: Any, **workload: Any) -> Deployment:
    """Its deployment."""
    return build(document(name, *arguments, **workload), "test")


@functools.cache
def ran(name: str, mode: str = "draining", rows: int = 32) -> RunResult:
    """The run."""
    return run(deployed(name, mode, rows))


def forwards_of(name: str) -> list[int]:
    """Decode forwards of every captured request."""
    requests = shipped(name).requests
    decodes = numbers(requests, "denoise_forwards") + numbers(requests, "store_forwards")
    return [int(forwards) for forwards in decodes]


@pytest.mark.parametrize("name", [*PACKED, *SYNCHRONOUS])
def test_a_run_has_the_captured_forwards(name: str) -> None:
    """Of every request, of all requests, and over whole batches; tokens per forward follow."""
    trace = shipped(name)
    counts = trace.manifest.counts

    result = ran(name, "draining", trace.manifest.batch)

    records = sorted(result.simulated.records.requests, key=lambda record: record.request)
    metrics = result.summary["metrics"]
    assert [record.forwards for record in records] == forwards_of(name)
    assert [record.output_tokens for record in records] == numbers(
        trace.requests, "output_tokens"
    ).tolist()
    assert metrics["forwards"] == counts.batch_forwards
    decodes = counts.denoise_forwards + counts.store_forwards
    assert metrics["tokens_per_forward"] == pytest.approx(counts.output_tokens / decodes, rel=1e-12)
    assert metrics["prefill_forwards"] == counts.batch_prefill_forwards
    assert result.summary["fidelity"]["replay"] == "exact"
    assert result.summary["interval"]["terms"].get("acceptance", 0.0) == 0.0


@pytest.mark.parametrize("mode", batching.names())
@pytest.mark.parametrize("name", ["ref-gwd-w3-t0.3"])
def test_packed_requests_do_the_same_in_any_company(name: str, mode: str) -> None:
    """Who is in the batch changes times and not what a request does."""
    result = ran(name, mode, 5)

    records = sorted(result.simulated.records.requests, key=lambda record: record.request)
    assert [record.forwards for record in records] == forwards_of(name)
    assert result.summary["metrics"]["requests_finished"] == len(forwards_of(name))


@pytest.mark.parametrize("name", [*PACKED, "ref-gwd-synchronous-b4"])
def test_schedules_are_the_captured_groups(name: str) -> None:
    """Tokens, queries and prefixes of every forward of rows that join together."""
    trace = shipped(name)
    tables, deployment = captured_tables(trace), deployed(name)
    batch, request = (numbers(trace.requests, column) for column in ("batch", "request"))
    prompt, output = (numbers(trace.requests, c) for c in ("prompt_tokens", "output_tokens"))

    for group in np.unique(batch)[:3]:
        rows = np.flatnonzero(batch == group).tolist()
        asked = [
            Request(int(request[row]), int(prompt[row]), int(output[row]), source=row)
            for row in rows
        ]
        for row, schedule in zip(rows, deployment.schedules(asked), strict=True):
            steps = slice(tables.first_step[row], tables.first_step[row + 1])
            decodes = tables.steps["kind"][steps] > 0
            for place, column in enumerate(("padded_tokens", "prefix_tokens")):
                expected = tables.steps[column][steps][decodes].tolist()
                assert schedule.passes[0].loads[place].tolist() == expected
            committed = tables.steps["committed_tokens"][steps][decodes]
            assert schedule.emitted_tokens.tolist() == committed.tolist()


def test_rows_that_wait_for_one_another_share_forwards() -> None:
    """A group's schedules end with its slowest row, and rows alone are quicker in sum."""
    deployment = deployed("ref-gwd-synchronous-b8", rows=8)
    source = source_of("ref-gwd-synchronous-b8", "gwd")
    asked = [
        Request(row, int(source.prompt_tokens[row]), int(source.output_tokens[row]), source=row)
        for row in range(8)
    ]

    together = [schedule.n_steps for schedule in deployment.schedules(asked)]
    alone = [deployment.schedule(request).n_steps for request in asked]

    assert together == forwards_of("ref-gwd-synchronous-b8")[:8]
    assert sum(alone) < sum(together)
    assert all(one <= other * 1.5 for one, other in zip(alone, together, strict=True))


def test_a_fused_store_has_logits_of_both_blocks() -> None:
    """The block that is stored goes through the LM head beside the one that begins (dInfer)."""
    trace = shipped("ref-single-block-fused")
    first = trace.requests.to_pylist()[0]
    asked = Request(0, first["prompt_tokens"], first["output_tokens"], source=0)

    query, _, logits = deployed("ref-single-block-fused").schedule(asked).passes[0].loads[:3]

    assert set(query.tolist()) == {16, 32}
    assert logits.tolist() == query.tolist()
    kinds = [s["kind"] for s in trace.steps.to_pylist() if s["request"] == 0][1:]
    assert [rows == 32 for rows in logits] == [kind == "fused-store" for kind in kinds]


def test_rows_of_a_draining_batch_leave_when_they_are_done() -> None:
    """In a static one they stay to its end; nobody joins either."""
    for mode, leave in (("draining", True), ("static", False)):
        records = ran("ref-gwd-w3-t0.3", mode, 16).simulated.records.requests
        batches = [[r for r in records if r.request // 16 == batch] for batch in range(8)]
        ends = [{record.finished_s for record in batch} for batch in batches]
        assert all((len(times) > 1) == leave for times in ends)
        begins = [max(record.admitted_s for record in batch) for batch in batches]
        assert all(max(a) <= b for a, b in zip(ends, begins[1:], strict=False))


def test_more_requests_than_were_captured_begin_again() -> None:
    """The 129th is the first once more, and fewer are the first so many."""
    n_requests = len(forwards_of("ref-gwd-w2-t0.6"))
    for asked in (3, n_requests + 2):
        result = run(deployed("ref-gwd-w2-t0.6", requests=asked))
        records = sorted(result.simulated.records.requests, key=lambda record: record.request)
        expected = (forwards_of("ref-gwd-w2-t0.6") * 2)[:asked]
        assert [record.forwards for record in records] == expected


def test_another_window_is_counterfactual() -> None:
    """Then each text has other forwards, the interval has the error, and the warning says so."""
    scenario = document("ref-gwd-w4-t0.0")
    scenario["decode"] |= {"window": 2, "theta_spawn": 0.5}

    result = run(build(scenario, "test"))

    assert result.summary["fidelity"]["replay"] == "counterfactual"
    assert result.summary["interval"]["terms"]["acceptance"] >= 0.04
    assert any("counterfactual (window 2" in warning for warning in result.summary["warnings"])
    captured = shipped("ref-gwd-w4-t0.0").manifest.counts.output_tokens
    assert result.summary["metrics"]["output_tokens"] == captured


def test_a_closed_workload_is_resampled_and_synchronous_ones_run_too() -> None:
    """Lengths are the scenario's, blocks the trace's; a batch that waits has one rhythm."""
    scenario = document("ref-gwd-synchronous-b8", rows=4)
    lengths = {"prompt_tokens": 40, "output_tokens": 100}
    scenario["workload"] = {"kind": "closed", "concurrency": 4, "requests": 8} | lengths

    result = run(build(scenario, "test"))

    assert result.summary["fidelity"]["replay"] == "counterfactual"
    assert any("(batch 4, captured 8)" in warning for warning in result.summary["warnings"])
    assert result.summary["metrics"]["output_tokens"] == 800
    groups = [
        {record.forwards for record in result.simulated.records.requests[i : i + 4]} for i in (0, 4)
    ]
    assert [len(group) for group in groups] == [1, 1]


def refused(scenario: dict[str, Any]) -> str:
    """What a scenario is refused for."""
    with pytest.raises(DocumentError) as caught:
        build(scenario, "test")
    return str(caught.value)


@pytest.mark.parametrize("mode", ["continuous"])
def test_rows_that_wait_must_begin_together(mode: str) -> None:
    """Nobody can join a shared window half-way; the modes that are right are named."""
    told = refused(document("ref-gwd-synchronous-b8", mode))
    assert "needs a batch that begins together: draining, static; got continuous" in told


def test_rows_that_wait_need_a_trace() -> None:
    """A constant pace has no slowest row."""
    scenario = document("ref-gwd-synchronous-b8")
    scenario["decode"] = {"policy": "gwd", "batching": "synchronous", "tokens_per_forward": 3.0}
    scenario["workload"] = {
        "kind": "closed",
        "concurrency": 4,
        "prompt_tokens": 40,
        "output_tokens": 100,
    }
    told = refused(scenario)
    assert "decode.batching" in told
    assert "name one in decode.trace" in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decode": {"policy": "gwd", "tokens_per_forward": 3.0}}, "name one in decode.trace"),
        ({"decode": {"policy": "gwd"}}, "give one of decode.tokens_per_forward and decode.trace"),
        (
            {"decode": {"policy": "gwd", "trace": "ref-gwd-w1", "tokens_per_forward": 2.0}},
            "give one of decode.tokens_per_forward and decode.trace",
        ),
        ({"decode": {"policy": "gwd", "trace": "ref-d2f"}}, "gwd replays traces of blocks by"),
        ({"decode": {"policy": "gwd", "trace": "ref-gwd-w1", "block": 8}}, "in blocks of 16"),
        ({"decode": {"policy": "gwd", "trace": "ref-uno-tree-b16-v16-t0"}}, "is of uno-tree"),
        ({"decode": {"policy": "gwd", "trace": "uno-qwen3-8b-t0"}}, "gwd replays traces"),
        ({"decode": {"policy": "multi-block", "trace": "ref-block-buffer-edit"}}, "overwrites"),
        (
            {"workload": {"kind": "captured", "lengths": [[1, 2]]}},
            "workload.lengths: are what the trace says",
        ),
        ({"workload": {"kind": "captured", "requests": 0}}, "workload.requests"),
        ({"workload": {"kind": "captured", "concurrency": 0}}, "workload.concurrency"),
        ({"workload": {"kind": "captured", "prompt_tokens": 4}}, "workload.prompt_tokens"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    """The field and what would be right are told."""
    assert words in refused(document("ref-gwd-w1") | changes)


def test_lengths_are_what_the_trace_says() -> None:
    """They make the workload's longest request and its example, and stay out of the document."""
    deployment = deployed("ref-gwd-w1")
    requests = shipped("ref-gwd-w1").requests.to_pandas()
    total = requests["prompt_tokens"] + requests["output_tokens"]

    workload = deployment.scenario.workload

    assert workload.longest_tokens == total.max()
    assert workload.n_requests == len(total)
    example = workload.example
    assert example.total_tokens == sorted(total)[len(total) // 2]
    assert example.total_tokens == total[example.source]
    assert "lengths" not in deployment.scenario.document()["workload"]
    assert isinstance(deployment.pace, BlockPace)


def test_a_folder_is_a_trace_too(tmp_path: Path) -> None:
    """By its path, as well as by a shipped name."""
    folder = tmp_path / "own"
    folder.symlink_to(library.TRACES.path("ref-gwd-w1").parent, target_is_directory=True)
    scenario = document("ref-gwd-w1")
    scenario["decode"]["trace"] = str(folder)

    result = run(build(scenario, "test"))

    assert result.summary["metrics"] == ran("ref-gwd-w1").summary["metrics"]
