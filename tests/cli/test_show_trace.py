"""`blockcast show traces` and `list traces`: both kinds of traces, by name and by path."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from simulator.library import TRACES
from tests.cli.command import call, small, written
from tests.traces.hand_made import parquet
from tests.traces.tiny_trace import FIELDS, ROWS, put, table_of
from traces.block_trace import read_block_trace
from traces.statistics import summary


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_nothing_is_cut_off(columns: int) -> None:
    """No line is longer than the terminal, and none of it is replaced by an ellipsis."""
    put(Path("tiny"))
    answer = call("show", "traces", "./tiny", columns=columns)
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= columns
    assert "…" not in answer.out


def test_what_a_block_trace_is_shown_as() -> None:
    """The numbers of the tiny trace, as counted by hand, and where it is from."""
    put(Path("tiny"))
    text = " ".join(call("show", "traces", "./tiny").out.split())
    for told in (
        "tiny: By hand.",
        "policy single-block, block 4",
        "task counting",
        "requests 3 in batches of 2",
        "output 18 tokens, at most 8 a request",
        "forwards 2 prefill, 10 denoising, 4 only storing",
        "of batches 13, of which 2 prefilled",
        "without prefill 1.286",
        "forwards that only store 1.800",
        "with prefill (Diffulex) 1.125",
        "slowest row (dInfer) 1.157",
        "forwards of a block, mean 1.67",
        "forwards of a block, median 1",
        "forwards of a block, most 3",
        "live blocks of a decode forward 1.07",
        "decode forwards with several 7.1 %",
        "slots that hold dummies 11.8 %",
        "edits of a request 0.33",
        "0 6 61.1 % ############ 2.67",
        "1 2 100.0 % #################### 2.00",
        "correct 50.0 %, standard error 35.4 %",
        "valid in every sentence 100.0 %",
        "tau_mask 0.9",
        "checkpoint none, trained for block 4",
        f"SHA-256 {'ab' * 32}",
        "seed 0",
        "pencil 2B",
        "1 decoded by hand",
    ):
        assert told in text
    assert "partial" not in text


def test_a_snapshot_says_so() -> None:
    """Of how many requests it has how many; what was not checked has no accuracy."""
    rows = [row | {"correct": None, "valid": None} for row in ROWS["requests"]]
    content = {"requests": parquet(table_of("requests", rows))}
    put(Path("tiny"), content, partial=True, requests_asked=50, accuracy=None, warnings=[])
    text = " ".join(call("show", "traces", "tiny/manifest.yaml").out.split())
    assert "partial a snapshot: 3 of 50 requests" in text
    assert "correct not checked" in text
    assert "Warnings" not in text


def test_long_curves_are_cut_in_the_tables_alone() -> None:
    """32 local steps are shown and the others counted; the JSON has all."""
    steps, blocks = [dict(row) for row in ROWS["steps"]], [dict(row) for row in ROWS["blocks"]]
    idle = [
        steps[15] | {"step": 4 + n, "kind": "denoise", "committed_tokens": 0} for n in range(40)
    ]
    idle[-1]["revealed"] = 1
    last = steps.pop() | {"step": 44}
    next(row for row in steps if (row["request"], row["step"]) == (2, 3))["revealed"] = 3
    lists = {name: [4, *[1] * 40] for name in ("masked", "ready")}
    lists |= {"revealed": [3, *[0] * 39, 1]}
    lists |= {name: [0] * 41 for name in ("edited", "agreeing")}
    blocks[5] |= {"finished": 44, "retired": 44} | lists
    requests = [dict(row) for row in ROWS["requests"]]
    requests[2]["denoise_forwards"] = 42
    content = {
        "requests": parquet(table_of("requests", requests)),
        "blocks": parquet(table_of("blocks", blocks)),
        "steps": parquet(table_of("steps", [*steps, *idle, last])),
    }
    folder = put(Path("tiny"), content, counts__denoise_forwards=50, counts__batch_forwards=53)
    path = folder / "manifest.yaml"
    path.write_text(path.read_text().replace("rows: 16", "rows: 56"))
    answer = call("show", "traces", "./tiny")
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert "9 more local steps: --json has them" in lines
    assert any(line.split()[:2] == ["31", "1"] for line in lines)
    assert not any(line.split()[:2] == ["32", "1"] for line in lines)
    shown = json.loads(call("show", "traces", "./tiny", "--json").out)
    assert shown["derived"]["local_steps"]["step"] == list(range(41))


def test_the_json_of_a_block_trace() -> None:
    """The manifest's fields, and the statistics under "derived"."""
    put(Path("tiny"))
    shown = json.loads(call("show", "traces", "./tiny", "--json").out)
    for name, value in FIELDS.items():
        assert shown[name] == value
    assert shown["derived"] == summary(read_block_trace(Path("tiny")))


def test_published_acceptance_is_shown_as_before() -> None:
    """A trace without the field `records` is one of acceptance, and is shown as YAML."""
    assert "uno-qwen3-8b-t1" in json.loads(call("list", "traces", "--json").out)
    shown = yaml.safe_load(call("show", "traces", "uno-qwen3-8b-t1").out)
    assert shown["kind"] == "published-statistics"
    assert shown["derived"]["points"]["GSM8K"] > 0


def test_a_block_trace_in_the_library_is_found() -> None:
    """Traces of both kinds lie in one folder and are found by the same means."""
    put(Path("tiny"))
    shelf = dataclasses.replace(TRACES, folder=Path())
    assert shelf.names() == ["tiny"]
    assert shelf.get("tiny") == read_block_trace(Path("tiny")).manifest


def test_damaged_traces_are_told_without_a_traceback() -> None:
    """Every mistake, with its file and place, in one message."""
    rows = [row | {"window_left": 5} for row in ROWS["steps"]]
    put(Path("tiny"), {"steps": parquet(table_of("steps", rows)), "blocks": b"none"})
    answer = call("show", "traces", "./tiny")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("blockcast: tiny:\n  blocks.parquet: is no readable Parquet")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("records: blocks", "records: block", ["records: no records 'block'", "mean blocks?"]),
        ("records: blocks", "records: [blocks]", ["records: must be a text, got a list"]),
        ("seed: 0", "seed: x\ncolour: red", ["seed: must be an integer, got 'x'", "'colour'"]),
        ("rows: 16", "row: 16", ["tables.steps.rows: a required", "known: file, rows, sha256"]),
        ("tau_mask: 0.9", "tau_mask: [1]", ["parameters.tau_mask: a parameter is a finite"]),
    ],
)
def test_a_manifest_that_is_wrong(old: str, new: str, words: list[str]) -> None:
    """The file, the fields and the rules are told as of every other document."""
    path = put(Path("tiny")) / "manifest.yaml"
    path.write_text(path.read_text().replace(old, new))
    answer = call("show", "traces", "./tiny")
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err for word in ["tiny/manifest.yaml", *words]), answer.err


def test_blocks_are_no_acceptance() -> None:
    """A speculative policy with a trace of blocks is told whose blocks they are."""
    put(Path("tiny"))
    decode = {"policy": "uno-linear", "block": 4, "trace": "./tiny"}
    answer = call("run", written(small(decode=decode)))
    assert (answer.code, answer.out) == (1, "")
    assert "decode.trace: tiny is of single-block, not of uno-linear" in answer.err
