"""`blockcast show trace` and `list traces` for iterations, and what is wrong with their files."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from simulator.library import TRACES
from tests.cli.command import Answer, call, small, written
from tests.traces.hand_made import parquet
from tests.traces.tiny_iterations import FIELDS, TABLES, TINY, changed, put, table_of
from traces.iteration_statistics import summary
from traces.iteration_trace import read_iteration_trace


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_nothing_is_cut_off(columns: int) -> None:
    """No line is longer than the terminal, and none of it is replaced by an ellipsis."""
    put(Path("tiny"))
    answer = call("show", "traces", "./tiny", columns=columns)
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= columns
    assert "…" not in answer.out


def test_what_a_trace_of_iterations_is_shown_as() -> None:
    """The numbers of the tiny trace, as counted by hand, and where it is from."""
    put(Path("tiny"))
    text = " ".join(call("show", "trace", "./tiny").out.split())
    for told in (
        "tiny: By hand.",
        "policy uno-linear, block 4",
        "task counting",
        "requests 4 in batches of 2",
        "output 22 tokens, at most 9 a request",
        "iterations 6, of which 2 cut by the output's end",
        "an iteration 3 drafts in a row, 2 to 5 tokens",
        "forwards 4 prefill, 6 drafting, 6 verifying",
        "of batches 12, of which 2 prefilled",
        "per step, of those that the end did not cut 3.500, standard error 0.750",
        "per step, of all as before the cut 3.833",
        "per step, as the output kept them 3.500",
        "per forward, a drafter's too, no prefill 1.750",
        "drafts verified an output token 0.82",
        "no draft accepted 25.0 %",
        "all drafts accepted 25.0 %",
        "correlation of successive ones -1.000",
        "variance between requests (none below 0) 57.1 %",
        "0 100.0 % #################### 25.0 % 1",
        "3 25.0 % ##### 25.0 % 1",
        "correct 50.0 %, standard error 35.4 %",
        "temperature 0.0",
        "checkpoint draws, trained for block 4",
        f"SHA-256 {'ab' * 32} target aims SHA-256 {'cd' * 32}",
        "pencil 2B",
        "1 decoded by hand",
    ):
        assert told in text
    assert "partial" not in text


def only_first_tokens() -> Path:
    """A snapshot of the request whose first token is its end, so that there is no iteration."""
    requests = [TINY.rows["requests"][3] | {"batch": 0, "row": 0}]
    made = {"requests": requests, "iterations": [], "steps": TINY.rows["steps"][-1:]}
    once = ("requests", "prefill_forwards", "batch_forwards", "batch_prefill_forwards")
    counts = {name: int(name in once) for name in FIELDS["counts"]}
    content = {name: parquet(table_of(name, rows)) for name, rows in made.items()}
    folder = put(Path("none"), content, counts=counts, partial=True, accuracy=None, warnings=[])
    path = folder / "manifest.yaml"
    text = path.read_text()
    for name, rows in made.items():
        text = text.replace(f"rows: {len(TINY.rows[name])}", f"rows: {len(rows)}", 1)
    path.write_text(text)
    return folder


def test_what_cannot_be_told_is_left_open() -> None:
    """Without an iteration there is no mean, and nothing fails."""
    text = " ".join(call("show", "trace", f"./{only_first_tokens()}").out.split())
    for told in (
        "partial a snapshot: 1 of 4 requests",
        "per step, of those that the end did not cut -, standard error -",
        "per forward, a drafter's too, no prefill -",
        "no draft accepted -",
        "variance between requests (none below 0) -",
        "correct not checked",
    ):
        assert told in text
    assert "Warnings" not in text


def test_the_json_of_a_trace_of_iterations() -> None:
    """The manifest's fields, and the statistics under "derived"."""
    put(Path("tiny"))
    shown = json.loads(call("show", "traces", "./tiny", "--json").out)
    for name, value in FIELDS.items():
        assert shown[name] == value
    assert shown["derived"] == summary(read_iteration_trace(Path("tiny")))


def test_iterations_in_the_library_are_found() -> None:
    """They lie in one folder with the other traces."""
    put(Path("tiny"))
    shelf = dataclasses.replace(TRACES, folder=Path())
    assert shelf.names() == ["tiny"]
    assert shelf.get("tiny") == read_iteration_trace(Path("tiny")).manifest


def test_iterations_are_acceptance_of_their_policy() -> None:
    """A speculative policy goes by its own iterations, and by no other's."""
    put(Path("tiny"))
    decode = {"policy": "uno-linear", "block": 4, "trace": "./tiny"}
    assert call("run", written(small(decode=decode))).code == 0
    answer = call("run", written(small(decode=decode | {"policy": "dflash"})))
    assert (answer.code, answer.out) == (1, "")
    assert "decode.trace: tiny is of uno-linear, not of dflash" in answer.err


def lost(name: str, column: str) -> bytes:
    """A table without a column."""
    return parquet(TABLES[name].drop_columns([column]))


def of_text(name: str, column: str) -> bytes:
    """A table with a column of text where numbers belong."""
    table = TABLES[name]
    text = pa.array(["1"] * table.num_rows)
    return parquet(table.drop_columns([column]).append_column(column, text))


@pytest.mark.parametrize(
    ("name", "content", "place", "rule"),
    [
        ("steps", lost("steps", "iteration"), "column iteration", "is missing"),
        ("iterations", of_text("iterations", "accepted"), "column accepted", "has the type int32"),
        ("requests", lost("requests", "output"), "column output", "is missing"),
        ("iterations", b"no table", "", "is no readable Parquet table"),
        ("iterations", parquet(TABLES["iterations"][:3]), "", "has 6 rows by the manifest, got 3"),
        (
            "iterations",
            changed("iterations", 0, {"accepted": 1, "cut": False}),
            "request 0 iteration 0",
            "emitted is 1 to 3, accepted and guaranteed tokens, got 4",
        ),
        (
            "iterations",
            changed("iterations", 1, {"emitted": 1, "cut": True}),
            "request 0 iteration 1",
            "only the last iteration of a request is cut",
        ),
        (
            "iterations",
            changed("iterations", 4, {"nodes": -3}),
            "request 2 iteration 0",
            "nodes is 3 to 2147483647, a path that is drafted and more, got -3",
        ),
        (
            "steps",
            changed("steps", 2, {"kind": "denoise"}),
            "request 0 step 2",
            "kind is prefill or draft or verify, got 'denoise'",
        ),
        (
            "requests",
            changed("requests", 2, {"output_tokens": 8, "output": list(range(8))}),
            "request 2",
            "output_tokens is 1 and what its iterations emit, without an end token, 9, got 8",
        ),
    ],
)
def test_a_bad_table_is_told_with_its_place(
    name: str, content: bytes, place: str, rule: str
) -> None:
    """Exit code 1, the folder, the file, the place in it and the rule; no output, no traceback."""
    put(Path("tiny"), {name: content})
    answer = call("show", "trace", "./tiny")
    where = f"{name}.parquet, {place}" if place else f"{name}.parquet"
    told(answer, "blockcast: tiny:", f"  {where}: {rule}")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("records: iterations", "records: iteration", "records: no records 'iteration'; did you"),
        ("output_tokens: 22", "output_tokens: 23", "counts.output_tokens: is 22 by the tables"),
        ("guaranteed_tokens: 2", "guaranteed_tokens: 0", "guaranteed_tokens: must be greater than"),
        ("  draft_forwards: 6\n", "", "counts.draft_forwards: a required field is missing"),
        ("draft_forwards: 6", "draft_forwards: '6'", "counts.draft_forwards: must be an integer"),
        ("target:", "aim:", "target: a required field is missing"),
        ("name: aims", "name: aims\n  kind: large", "target.kind: no field 'kind'"),
        ("batch_forwards: 12", "batch_forwards: 11", "counts.batch_forwards: is 12 to 16"),
    ],
)
def test_a_bad_manifest_is_told_with_its_field(old: str, new: str, words: str) -> None:
    """Exit code 1, the file, the field and the rule."""
    path = put(Path("tiny")) / "manifest.yaml"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    told(call("show", "trace", "./tiny"), "tiny", words)


def replaced(path: Path) -> None:
    """Other bytes of the same table."""
    path.write_bytes(changed("steps", 1, {"moved_tokens": 1}))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (Path.unlink, "steps.parquet: cannot be read: No such file or directory"),
        (replaced, "steps.parquet: has the SHA-256"),
    ],
)
def test_a_table_that_is_another_is_told(spoil: Callable[[Path], None], rule: str) -> None:
    """A file that is gone, and one that the manifest does not mean."""
    spoil(put(Path("tiny")) / "steps.parquet")
    told(call("show", "trace", "./tiny"), "blockcast: tiny:", rule)


def told(answer: Answer, *words: str) -> None:
    """Exit code 1, nothing on standard output, and all *words* in the message."""
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err for word in words), answer.err
