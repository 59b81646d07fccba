"""Reading of traces of iterations: every rule, the place that breaks it, and the kinds' names."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.traces import tiny_trace
from tests.traces.hand_made import parquet
from tests.traces.refusal import check_place, refused, the_one
from tests.traces.tiny_iterations import ROWS, TINY, changed, put, table_of
from traces.block_trace import BlockTrace, read_block_trace
from traces.iteration_tables import SCHEMAS
from traces.iteration_trace import IterationTrace, read_iteration_trace
from traces.reading import read_trace, trace_of
from traces.trace_error import TraceError


def test_the_tiny_trace_is_sound(tmp_path: Path) -> None:
    """The trace that the other tests break has every row as it was written, in Arrow's types."""
    trace = read_iteration_trace(put(tmp_path / "tiny"))
    assert trace.manifest.policies == ("uno-linear",)
    assert (trace.manifest.guaranteed_tokens, trace.manifest.target.name) == (2, "aims")
    for name, schema in SCHEMAS.items():
        assert trace.table(name).schema.equals(schema)
        assert trace.table(name).to_pylist() == ROWS[name]


def test_a_trace_is_read_as_the_kind_that_it_is(tmp_path: Path) -> None:
    """One reader for both kinds, and one for each that refuses the other."""
    blocks, iterations = tiny_trace.put(tmp_path / "blocks"), put(tmp_path / "iterations")
    assert isinstance(read_trace(blocks), BlockTrace)
    found = read_trace(iterations)
    assert isinstance(found, IterationTrace)
    assert trace_of(found.manifest, iterations).requests.equals(found.requests)
    with pytest.raises(TraceError, match="records: Input should be 'blocks'"):
        read_block_trace(iterations)
    with pytest.raises(TraceError, match="records: Input should be 'iterations'"):
        read_iteration_trace(blocks)


@pytest.mark.parametrize(
    ("text", "got"),
    [("records: [1]", "[1]"), ("records: steps", "'steps'"), ("", "None"), ("- 1", "None")],
)
def test_records_that_nobody_knows(text: str, got: str, tmp_path: Path) -> None:
    """A manifest that names no kind is told which there are."""
    (tmp_path / "manifest.yaml").write_text(text)
    assert refused(tmp_path) == [f"manifest.yaml, records: is blocks or iterations, got {got}"]


# A table, a row of it, cells that are changed, and what is said of them.
BROKEN: list[tuple[str, int, dict[str, Any], str]] = [
    ("requests", 1, {"request": 0}, "request 0: requests are there once"),
    ("requests", 0, {"row": 2}, "row is 0 to 1, for a batch has 2 rows, got 2"),
    ("requests", 0, {"output_tokens": 10}, "output_tokens is 0 to 9, the output limit, got 10"),
    ("requests", 0, {"output": [1]}, "output_tokens is the output's length, 1, got 9"),
    ("requests", 0, {"finish_reason": "eos"}, "finish_reason is end or limit, got 'eos'"),
    ("requests", 0, {"iterations": 2}, "iterations is the number of its rows, 3, got 2"),
    ("requests", 0, {"prefill_forwards": 0}, "prefill_forwards is 1 to 2147483647, for its first"),
    ("requests", 0, {"draft_forwards": 2}, "draft_forwards is the number of such steps, 3, got 2"),
    ("requests", 0, {"verify_forwards": -1}, "verify_forwards is 0 to 2147483647, a count"),
    ("requests", 0, {"finish_reason": "limit"}, "without an end token, 10, got 9"),
    ("requests", 3, {"finish_reason": "limit"}, "request 3: output_tokens is 1 and what its"),
    ("requests", 0, {"correct": False}, "accuracy.correct: is 0.0 by the requests, got 0.5"),
    ("iterations", 5, {"request": 9}, "request 9 iteration 1: its request is not among"),
    ("iterations", 1, {"iteration": 2}, "iteration counts from 0 within a request, 1, got 2"),
    ("iterations", 0, {"prefix_tokens": 4}, "prefix_tokens is the prompt and what was emitted, 5"),
    ("iterations", 4, {"prefix_tokens": 5}, "request 2 iteration 0: prefix_tokens is the prompt"),
    ("iterations", 2, {"prefix_tokens": -1}, "request 0 iteration 2: prefix_tokens is 0 to"),
    ("iterations", 0, {"drafted": 4}, "nodes is 4 to 2147483647, a path that is drafted"),
    ("iterations", 1, {"drafted": -1}, "request 0 iteration 1: drafted is 0 to"),
    ("iterations", 0, {"nodes": 2}, "nodes is 3 to 2147483647, a path that is drafted"),
    ("iterations", 0, {"accepted": 4}, "accepted is 0 to 3, what is drafted, got 4"),
    ("iterations", 1, {"accepted": -1}, "accepted is 0 to 3, what is drafted, got -1"),
    ("iterations", 0, {"emitted": 5}, "emitted is 1 to 4, accepted and guaranteed tokens, got 5"),
    ("iterations", 3, {"emitted": 0}, "emitted is 1 to 5, accepted and guaranteed tokens, got 0"),
    ("iterations", 3, {"emitted": 3}, "request 1: output_tokens is 1 and what its iterations"),
    ("iterations", 2, {"emitted": 2}, "an iteration is cut where it emits fewer than it may"),
    ("iterations", 3, {"cut": False}, "request 1 iteration 0: an iteration is cut where it"),
    ("iterations", 0, {"cut": True}, "request 0 iteration 0: an iteration is cut where it"),
    ("iterations", 0, {"cut": True, "emitted": 3}, "only the last iteration of a request is cut"),
    ("steps", 0, {"kind": "store"}, "kind is prefill or draft or verify, got 'store'"),
    ("steps", 1, {"step": 2}, "request 0 step 2: step counts from 0 within a request, 1, got 2"),
    ("steps", 0, {"query_tokens": 0}, "query_tokens is 1 to 2147483647, a forward has tokens"),
    ("steps", 1, {"logit_rows": 5}, "logit_rows is 0 to 4, the query tokens, got 5"),
    ("steps", 1, {"adapter_tokens": -1}, "adapter_tokens is 0 to 4, the query tokens, got -1"),
    ("steps", 1, {"feature_tokens": -1}, "feature_tokens is 0 to 2147483647, a count, got -1"),
    ("steps", 1, {"moved_tokens": -2}, "moved_tokens is 0 to 2147483647, a count, got -2"),
    ("steps", 1, {"prefix_tokens": -4}, "prefix_tokens is 0 to 2147483647, a count, got -4"),
    ("steps", 6, {"iteration": 3}, "iteration is -1 to 2, an iteration of the request, -1 for a"),
    ("steps", 0, {"iteration": 0}, "a prefill is of iteration -1, and nothing else is"),
    ("steps", 1, {"iteration": -1}, "request 0 step 1: a prefill is of iteration -1"),
    ("steps", 5, {"iteration": 1}, "a verification is the last step of its iteration"),
    ("steps", 3, {"iteration": 0}, "request 0 step 3: a verification is the last step of its"),
    ("steps", 4, {"iteration": 0}, "request 0 step 4: steps are in the order of their iterations"),
    ("steps", 2, {"kind": "draft"}, "request 0 iteration 0: an iteration is verified by 1 step, "),
    ("steps", 1, {"kind": "verify"}, "an iteration is verified by 1 step, got 2"),
    ("steps", 2, {"query_tokens": 5}, "query_tokens of a verification is its nodes and the token"),
    ("steps", 2, {"prefix_tokens": 5}, "prefix_tokens of a verification is what is stored before"),
    ("steps", 2, {"moved_tokens": 5}, "moved_tokens is 0 to 4, what a verification keeps, got 5"),
    ("steps", 1, {"moved_tokens": 1}, "moved_tokens is 0 to 0, what a verification keeps, got 1"),
    ("steps", 2, {"feature_tokens": 1}, "feature_tokens is 0 to 0, a draft takes them in, got 1"),
    ("iterations", 0, {"nodes": 4}, "query_tokens of a verification is its nodes and the token"),
]


@pytest.mark.parametrize(("name", "row", "cells", "words"), BROKEN)
def test_a_rule_that_a_row_breaks(
    name: str, row: int, cells: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The file, the request with its iteration or step, the rule and the value are told."""
    found = refused(put(tmp_path / "tiny", {name: changed(name, row, cells)}))
    check_place(the_one(found, words), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("counts__requests", 5, "tables.requests.rows is counts.requests, 5, got 4"),
        ("counts__output_tokens", 21, "counts.output_tokens: is 22 by the tables, got 21"),
        ("counts__iterations", 7, "counts.iterations: is 6 by the tables, got 7"),
        ("counts__prefill_forwards", 3, "counts.prefill_forwards: is 4 by the tables, got 3"),
        ("counts__draft_forwards", 5, "counts.draft_forwards: is 6 by the tables, got 5"),
        ("counts__verify_forwards", 0, "counts.verify_forwards: is 6 by the tables, got 0"),
        ("counts__batch_forwards", 11, "counts.batch_forwards: is 12 to 16, of the slowest"),
        ("counts__batch_prefill_forwards", 13, "at most 12, got 13"),
        ("counts__denoise_forwards", 1, "counts.denoise_forwards: Unexpected keyword argument"),
        ("counts__iterations", -1, "counts.iterations: Input should be greater than or equal"),
        ("accuracy__valid", 0.5, "accuracy.valid: is 1.0 by the requests, got 0.5"),
        ("target__sha256", "cd", "target.sha256: String should match pattern"),
        ("target__trained_block_tokens", 4, "target.trained_block_tokens: Unexpected keyword"),
        ("guaranteed_tokens", 0, "guaranteed_tokens: Input should be greater than 0"),
        ("guaranteed_tokens", 3, "iterations.parquet, request 0 iteration 0: an iteration is cut"),
        ("requests_asked", 5, "a complete trace has all 5 requests_asked, got 4"),
        ("output_limit_tokens", 8, "output_tokens is 0 to 8, the output limit, got 9 (and 1 more"),
        ("colour", "red", "colour: Unexpected keyword argument"),
    ],
)
def test_a_rule_that_the_manifest_breaks(
    field: str, value: object, words: str, tmp_path: Path
) -> None:
    """The field, the rule and the value are told."""
    the_one(refused(put(tmp_path / "tiny", **cast("Any", {field: value}))), words)


def test_a_first_token_that_ends_has_no_iterations(tmp_path: Path) -> None:
    """An output of nothing with an iteration is more than the prefill's token."""
    iteration = ROWS["iterations"][3] | {"request": 3, "prefix_tokens": 4}
    rows = [*ROWS["iterations"], iteration]
    folder = put(tmp_path / "tiny", {"iterations": parquet(table_of("iterations", rows))})
    path = folder / "manifest.yaml"
    path.write_text(path.read_text().replace("rows: 6", "rows: 7"))
    rule = "output_tokens is 1 and what its iterations emit, without an end token, 4, got 0"
    assert f"requests.parquet, request 3: {rule}" in refused(folder)


def test_autoregression_is_iterations_without_drafts(tmp_path: Path) -> None:
    """Each token is verified by a forward of one query, and nothing is drafted."""
    plain = {"drafted": 0, "nodes": 0, "accepted": 0, "emitted": 1, "cut": False}
    iterations = [
        row | plain | {"prefix_tokens": row["prefix_tokens"]} for row in ROWS["iterations"][:1]
    ]
    iterations += [iterations[0] | {"iteration": 1, "prefix_tokens": 6}]
    requests = [
        ROWS["requests"][0]
        | {"output_tokens": 2, "output": [1, 2], "iterations": 2, "draft_forwards": 0}
        | {"verify_forwards": 2}
    ]
    prefill, _, verify = ROWS["steps"][:3]
    once = verify | {"step": 1, "prefix_tokens": 5, "query_tokens": 1, "logit_rows": 1}
    steps = [prefill, once, once | {"step": 2, "iteration": 1, "prefix_tokens": 6}]
    made = {"requests": requests, "iterations": iterations, "steps": steps}
    counts = {
        "requests": 1,
        "output_tokens": 2,
        "iterations": 2,
        "prefill_forwards": 1,
        "draft_forwards": 0,
        "verify_forwards": 2,
        "batch_forwards": 3,
        "batch_prefill_forwards": 1,
    }
    folder = put(
        tmp_path / "ar",
        {name: parquet(table_of(name, rows)) for name, rows in made.items()},
        counts=counts,
        guaranteed_tokens=1,
        requests_asked=1,
        accuracy={"correct": 1.0, "valid": 1.0},
    )
    path = folder / "manifest.yaml"
    text = path.read_text()
    for name, rows in made.items():
        text = text.replace(f"rows: {len(TINY.rows[name])}", f"rows: {len(rows)}", 1)
    path.write_text(text)
    assert read_iteration_trace(folder).iterations["emitted"].to_pylist() == [1, 1]
