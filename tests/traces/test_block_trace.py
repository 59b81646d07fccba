"""Reading of block traces: every rule, the place that breaks it, and all mistakes at once."""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import traces
from tests.traces import refusal
from tests.traces.hand_made import parquet
from tests.traces.refusal import check_place, the_one
from tests.traces.shipped import BLOCKS
from tests.traces.tiny_trace import ROWS, TABLES, changed, fields, put, table_of
from traces.block_tables import SCHEMAS
from traces.block_trace import read_block_trace
from traces.statistics import summary


def refused(folder: Path) -> list[str]:
    """The mistakes that the trace is refused for, a line each."""
    return refusal.refused(folder, read_block_trace)


def test_the_tiny_trace_is_sound(tmp_path: Path) -> None:
    """The trace that the other tests break has every row as it was written, in Arrow's types."""
    trace = read_block_trace(put(tmp_path / "tiny"))
    assert trace.manifest.policies == ("single-block",)
    for name, schema in SCHEMAS.items():
        assert trace.table(name).schema.equals(schema)
        assert trace.table(name).to_pylist() == ROWS[name]


# A table, a row of it, cells that are changed, and what is said of them.
BROKEN: list[tuple[str, int, dict[str, Any], str]] = [
    ("requests", 1, {"request": 0}, "request 0: requests are there once"),
    ("requests", 0, {"problem": -1}, "problem is 0 to 2147483647, a count, got -1"),
    ("requests", 0, {"row": 2}, "row is 0 to 1, for a batch has 2 rows, got 2"),
    ("requests", 1, {"row": 0}, "request 1: a row of a batch is one request's"),
    ("requests", 2, {"prompt_tokens": 0}, "request 2: prompt_tokens is 1 to"),
    ("requests", 2, {"output_tokens": 9}, "output_tokens is 0 to 8, the output limit, got 9"),
    ("requests", 0, {"output": [1]}, "output_tokens is the output's length, 1, got 5"),
    ("requests", 0, {"finish_reason": "eos"}, "finish_reason is end or limit, got 'eos'"),
    ("requests", 0, {"store_forwards": 1}, "store_forwards is the number of such steps, 2, got 1"),
    ("requests", 0, {"denoise_forwards": 0}, "denoise_forwards is 1 to"),
    ("requests", 0, {"output_tokens": 6}, "output_tokens is what its steps commit, 5, got 6"),
    ("requests", 0, {"correct": False}, "accuracy.correct: is 0.0 by the requests, got 0.5"),
    ("requests", 2, {"valid": False}, "accuracy.valid: is 0.66"),
    ("blocks", 5, {"request": 3}, "request 3 block 1: its request is not among the requests"),
    ("blocks", 1, {"block": 2}, "request 0 block 2: block counts from 0 within a request, 1"),
    ("blocks", 0, {"admitted": -1}, "request 0 block 0: admitted is 0 to 7, the request's"),
    ("blocks", 0, {"admitted": 8}, "admitted is 0 to 7, the request's forwards, got 8"),
    ("blocks", 5, {"retired": 5}, "request 2 block 1: retired is -1 to 4"),
    ("blocks", 5, {"finished": -2}, "request 2 block 1: finished is -1 to 4"),
    ("blocks", 1, {"admitted": 6, "retired": -1}, "finishes after it is admitted, not before"),
    ("blocks", 0, {"retired": 1}, "request 0 block 0: a block retires when it has finished"),
    ("blocks", 0, {"finished": -1}, "request 0 block 0: a block retires when it has finished"),
    ("blocks", 5, {"admitted": 4, "finished": 4, "masked": [4, 0]}, "local step per forward"),
    ("blocks", 0, {"ready": [2]}, "masked, ready, revealed, edited, agreeing are of one length"),
    ("blocks", 0, {"ready": [2, 2]}, "request 0 block 0: ready is at most masked"),
    ("blocks", 0, {"revealed": [1, 2]}, "request 0 block 0: revealed is at most masked"),
    ("blocks", 1, {"masked": [5, 3]}, "request 0 block 1: masked is 0 to 4, the block"),
    ("blocks", 1, {"edited": [-1, 1]}, "request 0 block 1: edited is 0 to 4, the block"),
    ("blocks", 1, {"revealed": [0, 3]}, "as many revealed tokens"),
    ("blocks", 1, {"edited": [0, 1]}, "as many edited tokens"),
    ("steps", 3, {"step": 4}, "request 0 step 4: step counts from 0 within a request, 3, got 4"),
    ("steps", 15, {"request": 1}, "request 1 step 4: rows are in the order of their requests"),
    ("steps", 1, {"kind": "draft"}, "kind is prefill or denoise or store or fused-store"),
    ("steps", 1, {"padded_tokens": 0}, "padded_tokens is 1 to"),
    ("steps", 1, {"query_tokens": 5}, "query_tokens is 0 to 4, the padded tokens, got 5"),
    ("steps", 1, {"logit_rows": -1}, "logit_rows is 0 to 4, the padded tokens, got -1"),
    ("steps", 1, {"window_left": 2}, "window_left is 0 to 1, the window's right end, got 2"),
    ("steps", 1, {"committed_tokens": 1}, "output_tokens is what its steps commit, 6, got 5"),
    ("steps", 1, {"prefix_tokens": -4}, "prefix_tokens is 0 to"),
    ("blocks", 1, {"masked": [4, 2]}, "request 0 block 1: masks that are not revealed stay"),
    ("blocks", 0, {"revealed": [2, 0]}, "request 0 block 0: a block that retires has no mask left"),
    ("blocks", 0, {"admitted": 0}, "step 0: revealed is what the blocks' local steps say, 2, got"),
    ("steps", 1, {"revealed": 1}, "step 1: revealed is what the blocks' local steps say, 2, got 1"),
    ("steps", 4, {"edited": 1}, "step 4: edited is what the blocks' local steps say, 0, got 1"),
    ("steps", 5, {"committed_tokens": 2}, "step 5: committed_tokens is 0 to 0, of the blocks that"),
    ("steps", 3, {"committed_tokens": 5}, "committed_tokens is 0 to 4, of the blocks that retire"),
]


@pytest.mark.parametrize(("name", "row", "cells", "words"), BROKEN)
def test_a_rule_that_a_row_breaks(
    name: str, row: int, cells: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The file, the request with its block or step, the rule and the value are told."""
    found = refused(put(tmp_path / "tiny", {name: changed(name, row, cells)}))
    check_place(the_one(found, words), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("counts__requests", 2, "tables.requests.rows is counts.requests, 2, got 3"),
        ("counts__output_tokens", 17, "counts.output_tokens: is 18 by the tables, got 17"),
        ("counts__prefill_forwards", 3, "counts.prefill_forwards: is 2 by the tables, got 3"),
        ("counts__denoise_forwards", 9, "counts.denoise_forwards: is 10 by the tables, got 9"),
        ("counts__store_forwards", 5, "counts.store_forwards: is 4 by the tables, got 5"),
        ("counts__batch_forwards", 11, "counts.batch_forwards: is 12 to 16, of the slowest"),
        ("counts__batch_forwards", 17, "counts.batch_forwards: is 12 to 16, of the slowest"),
        ("counts__batch_prefill_forwards", 1, "counts.batch_prefill_forwards: is 2 to 2"),
        ("counts__batch_prefill_forwards", 14, "at most 13, got 14"),
        ("accuracy", None, "accuracy.correct: is 0.5 by the requests, got None"),
        ("accuracy__valid", 1.5, "accuracy.valid: Input should be less than or equal to 1"),
        ("checkpoint__sha256", "ab", "checkpoint.sha256: String should match pattern"),
        ("requests_asked", 2, "counts.requests is at most requests_asked, 2, got 3"),
        ("requests_asked", 4, "a complete trace has all 4 requests_asked, got 3"),
        ("parameters", {"tau": [0.9]}, "parameters.tau: a parameter is a finite number"),
        ("parameters", {"tau": float("nan")}, "parameters.tau: a parameter is a finite number"),
        ("records", "iterations", "records: Input should be 'blocks'"),
        ("seed", True, "seed: Input should be a valid integer"),
        ("colour", "red", "colour: Unexpected keyword argument"),
    ],
)
def test_a_rule_that_the_manifest_breaks(
    field: str, value: object, words: str, tmp_path: Path
) -> None:
    """The field, the rule and the value are told."""
    found = refused(put(tmp_path / "tiny", **cast("Any", {field: value})))
    assert the_one(found, words).startswith(("manifest.yaml, ", "manifest.yaml: "))


def test_a_field_that_is_missing(tmp_path: Path) -> None:
    """Without the policy the trace is refused, by the field's name."""
    path = put(tmp_path / "tiny") / "manifest.yaml"
    text = path.read_text().replace("policy: single-block\n", "")
    path.write_text(text)
    assert refused(path.parent) == ["manifest.yaml, policy: Field required"]


@pytest.mark.parametrize("file", ["../steps.parquet", "blocks.parquet", "steps.0.parquet"])
def test_tables_are_beside_the_manifest_under_their_names(file: str, tmp_path: Path) -> None:
    """A path that leads elsewhere is no table's file, and neither is another table's."""
    path = put(tmp_path / "tiny") / "manifest.yaml"
    path.write_text(path.read_text().replace("file: steps.parquet", f"file: {file}"))
    rule = f"tables.steps.file is steps.parquet or steps.NUMBER.parquet, got '{file}'"
    assert rule in refused(path.parent)[0]


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    """A missing file, another hash and lost columns in one error; then rules of three files."""
    folder = put(tmp_path / "one", {"steps": parquet(TABLES["steps"].drop_columns(["kind"]))})
    (folder / "requests.parquet").unlink()
    (folder / "blocks.parquet").write_bytes(b"PAR1")
    first, second, third = refused(folder)
    assert first == "requests.parquet: cannot be read: No such file or directory"
    assert second.startswith("blocks.parquet: has the SHA-256 ")
    assert third == "steps.parquet, column kind: is missing"
    broken = {
        "blocks": changed("blocks", 0, {"retired": 1, "ready": [9, 9]}),
        "steps": changed("steps", 3, {"kind": "stored"}),
    }
    found = refused(put(tmp_path / "two", broken, counts__output_tokens=1))
    assert {line.split(",")[0].split(":")[0] for line in found} == {
        "blocks.parquet",
        "steps.parquet",
        "requests.parquet",
        "manifest.yaml",
    }
    assert len(found) == 8


def test_many_rows_that_break_a_rule_are_one_mistake(tmp_path: Path) -> None:
    """The first row is named, the others are counted."""
    rows = [row | {"window_left": 5} for row in ROWS["steps"]]
    found = refused(put(tmp_path / "tiny", {"steps": parquet(table_of("steps", rows))}))
    place, rule = "steps.parquet, request 0 step 0", "window_left is 0 to 0, the window's right end"
    assert found == [f"{place}: {rule}, got 5 (and 15 more rows)"]


def column(name: str, column: str, values: pa.Array | None) -> bytes:
    """The table of *name* with a column replaced, or added, or without it."""
    table = TABLES[name]
    rest = table.drop_columns([column]) if column in table.column_names else table
    return parquet(rest if values is None else rest.append_column(column, values))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("steps", column("steps", "colour", pa.array(["red"] * 16)), "column colour: is unknown"),
        ("steps", column("steps", "kind", None), "column kind: is missing"),
        (
            "steps",
            column("steps", "step", pa.array([0.5] * 16)),
            "column step: has the type int32, got double",
        ),
        (
            "steps",
            column("steps", "step", pa.array([None] * 16, pa.int32())),
            "column step: has a value in every row, got 16 without",
        ),
        (
            "blocks",
            column("blocks", "ready", pa.array([[1, None]] * 6, pa.list_(pa.int16()))),
            "column ready: has the type list<element: int16 not null>, got list<element: int16>",
        ),
        ("requests", parquet(TABLES["requests"][:2]), "has 3 rows by the manifest, got 2"),
        ("requests", b"", "is no readable Parquet table"),
        ("requests", b"no Parquet at all", "is no readable Parquet table"),
    ],
)
def test_tables_of_another_form(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    """Columns that are unknown, missing or of another type, lost rows and no Parquet at all."""
    found = refused(put(tmp_path / "tiny", {name: content}))
    assert any(line.startswith(f"{name}.parquet") and words in line for line in found), found


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    """Which of the two is meant nobody knows."""
    table = TABLES["steps"]
    twice = pa.table([*table.columns, table["step"]], names=[*table.column_names, "step"])
    found = refused(put(tmp_path / "tiny", {"steps": parquet(twice)}))
    assert found == ["steps.parquet, column step: is there more than once"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"a: [", "is not readable as YAML"),
        (b"[" * 2000, "is not readable as YAML"),
        (b"", "Input should be"),
        (b"a" * 1_000_001, "is 1000000 bytes at most, got 1000001"),
        (b"when: 2001-99-99", "is not readable as YAML"),
    ],
)
def test_manifests_that_are_none(content: bytes, words: str, tmp_path: Path) -> None:
    """Bytes that are no YAML, or no mapping, or far too many."""
    (put(tmp_path / "tiny") / "manifest.yaml").write_bytes(content)
    (line,) = refused(tmp_path / "tiny")
    assert line.startswith("manifest.yaml")
    assert words in line


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The manifest is what is missed."""
    told = "manifest.yaml: cannot be read: No such file or directory"
    assert refused(tmp_path / "nowhere") == [told]


def test_a_request_that_nobody_could_check_is_left_out_of_accuracy(tmp_path: Path) -> None:
    """Without any verdict, no accuracy is the right one."""
    rows = [row | {"correct": None, "valid": None} for row in ROWS["requests"]]
    content = {"requests": parquet(table_of("requests", rows))}
    for name, accuracy in (("none", None), ("both", {"correct": None, "valid": None})):
        trace = read_block_trace(put(tmp_path / name, content, accuracy=accuracy))
        assert summary(trace)["accuracy"] is None
    assert len(refused(put(tmp_path / "some", content, accuracy=fields()["accuracy"]))) == 2


@pytest.mark.parametrize("name", BLOCKS)
def test_shipped_traces_are_sound_and_whole(name: str) -> None:
    """A trace that comes with the package is named as its folder, complete, and keeps the rules."""
    manifest = read_block_trace(traces.DATA / name).manifest
    assert manifest.name == name
    assert not manifest.partial
