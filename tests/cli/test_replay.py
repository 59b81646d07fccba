"""`blockcast replay`: what it prints and writes, and what it refuses in a line each."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from simulator.library import TRACES
from tests.cli.command import Answer, call
from traces.block_trace import read_block_trace

WAVE = "ref-gwd-w3-t0.3"


def own(name: str = WAVE) -> Path:
    """A copy of a shipped trace in this test's folder."""
    folder = Path("own")
    shutil.copytree(TRACES.path(name).parent, folder)
    return folder


def with_fields(folder: Path, **changes: Any) -> None:
    """Change fields of the manifest; `tables__steps__file` is tables.steps.file."""
    path = folder / "manifest.yaml"
    fields = yaml.safe_load(path.read_text("utf-8"))
    for name, value in changes.items():
        *parents, last = name.split("__")
        holder = fields
        for parent in parents:
            holder = holder[parent]
        holder[last] = value
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")


def with_bytes(folder: Path, table: str, content: bytes) -> None:
    """Other bytes for a table's file, and their hash."""
    (folder / f"{table}.parquet").write_bytes(content)
    with_fields(folder, **{f"tables__{table}__sha256": hashlib.sha256(content).hexdigest()})


def with_table(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Another table in the place of one, rightly hashed and counted."""
    path = folder / f"{table}.parquet"
    made = change(pq.read_table(path))
    pq.write_table(made, path)
    with_bytes(folder, table, path.read_bytes())
    with_fields(folder, **{f"tables__{table}__rows": made.num_rows})


def with_cells(column: str, cells: dict[int, Any]) -> Callable[[pa.Table], pa.Table]:
    """Change cells of a column; a function is given what stands there."""

    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        for row, value in cells.items():
            values[row] = value(values[row]) if callable(value) else value
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        return table.set_column(place, field, pa.array(values, field.type))

    return change


def check_refused(answer: Answer, words: str) -> None:
    """Code 1, nothing printed, and one line that says it below what it is about."""
    assert (answer.code, answer.out) == (1, "")
    told = [line for line in answer.err.splitlines() if words in line]
    assert len(told) == 1, answer.err
    assert told[0].startswith("  ")
    assert "Traceback" not in answer.err


def files() -> set[str]:
    """All that lies in this test's folder."""
    return {str(path) for path in Path().rglob("*")}


@pytest.mark.parametrize("columns", [60, 100])
def test_what_is_printed(columns: int) -> None:
    """How faithful, the policy, its parameters, and the totals that the manifest has."""
    counts = TRACES.get(WAVE).counts

    answer = call("replay", WAVE, columns=columns)

    assert (answer.code, answer.err) == (0, "")
    text = " ".join(answer.out.split())
    for told in (
        f"{WAVE}: exact replay",
        "gwd: block 16, window 3, theta_spawn 0.3, batching packed, full_window True",
        f"requests {counts.requests}",
        f"output tokens {counts.output_tokens}",
        f"forwards {counts.prefill_forwards + counts.denoise_forwards}",
        f"forwards of batches {counts.batch_forwards}",
        "of them drawn 0.0",
    ):
        assert told in text
    assert "warning" not in text


def test_one_json_object() -> None:
    """The same as JSON, with no NaN and nothing else on the line."""
    counts = TRACES.get(WAVE).counts

    found = json.loads(call("replay", WAVE, "--json").out)

    assert found["replay"] == "exact"
    assert found["policy"] == "gwd"
    assert found["parameters"]["window"] == 3
    assert found["batch_forwards"] == counts.batch_forwards
    assert found["drawn_share"] == 0.0
    assert found["warnings"] == []
    assert "tables" not in found
    assert 0 < found["accuracy"] <= 1


def test_a_counterfactual_one_says_so() -> None:
    """The answer, its warning, and no accuracy."""
    answer = call("replay", WAVE, "--set", "window=2", "--set", "theta_spawn=0.5")
    found = json.loads(
        call("replay", WAVE, "--set", "window=2", "--set", "theta_spawn=0.5", "--json").out
    )

    assert answer.code == 0
    assert f"{WAVE}: counterfactual replay" in answer.out
    changed = "counterfactual (window 2, captured 3, theta_spawn 0.5, captured 0.3)"
    assert f"warning: {changed}" in answer.out
    assert "correct" not in answer.out
    assert found["accuracy"] is found["valid"] is None
    assert found["warnings"][0].startswith(changed)


def test_a_window_that_the_trace_never_had_is_a_guess() -> None:
    """A second warning names how many blocks were live."""
    answer = call("replay", "ref-gwd-w2-t0.6", "--set", "window=4")

    assert answer.code == 0
    assert "up to 4 blocks are live, in trace ref-gwd-w2-t0.6 2 at most" in answer.out
    assert "missed captures of 128 requests by 10%" in answer.out


@pytest.mark.parametrize("name", ["./own", "own"])
def test_a_folder_is_a_trace(name: str) -> None:
    """By its path, or its name where no shipped trace is called so; the settings too."""
    own()

    answer = call("replay", name, "--exact", "--set", "window=3", "--set", "policy=gwd")

    assert (answer.code, answer.err) == (0, "")
    assert "exact replay" in answer.out


def test_a_partial_trace_says_so() -> None:
    """A snapshot is replayed, with a warning and those of its manifest."""
    folder = own()
    with_fields(folder, partial=True, requests_asked=500, warnings=["was cold"])

    answer = call("replay", "./own")

    assert answer.code == 0
    assert f"warning: trace {WAVE} is a snapshot of 128 of 500 requests" in answer.out
    assert f"warning: trace {WAVE}: was cold" in answer.out


def test_every_forward_is_written() -> None:
    """A table with the captured columns and rows, and no draft beside it."""
    answer = call("replay", WAVE, "--steps", "steps.parquet")

    assert answer.code == 0
    assert files() == {"steps.parquet"}
    found, trace = pq.read_table("steps.parquet"), read_block_trace(TRACES.path(WAVE).parent)
    assert set(found.column_names) == set(trace.steps.column_names)
    for name in trace.steps.column_names:
        assert found[name].to_pylist() == trace.steps[name].to_pylist()


def test_forwards_of_other_settings_are_written() -> None:
    """Those of the counterfactual replay; tokens are conserved in them."""
    found = json.loads(
        call("replay", WAVE, "--set", "window=1", "--steps", "s.parquet", "--json").out
    )

    steps = pq.read_table("s.parquet").to_pandas()
    assert len(steps) == found["forwards"]
    assert steps["committed_tokens"].sum() == found["output_tokens"]
    live = (steps["window_right"] - steps["window_left"])[steps["kind"] != "prefill"]
    assert set(live) == {1}


# What is changed in a copy of the trace, and what is said of it.
DISAGREEING: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("blocks", lambda table: table.slice(0, table.num_rows - 1), "as many revealed tokens"),
    ("blocks", lambda table: table.slice(1), "counts from 0 within a request"),
    ("steps", with_cells("committed_tokens", {3: 1}), "output_tokens is what its steps commit"),
    ("steps", with_cells("committed_tokens", {3: 1}), "of the blocks that retire with the forward"),
    ("steps", with_cells("committed_tokens", {6: 31, 8: 15}), "committed_tokens 31 captured, 30"),
    ("blocks", with_cells("ready", {0: lambda old: [99, *old[1:]]}), "ready is 0 to 16, the block"),
    ("blocks", with_cells("ready", {0: lambda old: [16, *old[1:]]}), "ready is at most masked"),
    ("blocks", with_cells("masked", {0: lambda old: [old[0] - 1, *old[1:]]}), "captured, "),
    ("blocks", with_cells("retired", {1: -1}), "of the blocks that retire with the forward"),
    ("blocks", with_cells("admitted", {1: 0}), "is what the blocks' local steps say"),
    ("steps", with_cells("window_right", {2: 4}), "window_right 4 captured, "),
    ("steps", with_cells("prefix_tokens", {2: 0}), "prefix_tokens 0 captured, "),
    ("steps", lambda table: table.drop_columns(["kind"]), "column kind: is missing"),
]


@pytest.mark.parametrize(("table", "change", "words"), DISAGREEING)
def test_tables_that_disagree(
    table: str, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    """With right hashes; by a rule of traces, or since its policy does not do what it says."""
    with_table(own(), table, change)
    before = files()

    answer = call("replay", "./own", "--steps", "new.parquet")

    check_refused(answer, words)
    assert files() == before


def test_a_trace_without_its_parameters_is_not_taken_for_exact() -> None:
    """Defaults stand in for what is missing, and what they do is not what is captured."""
    with_fields(own(), parameters={})

    check_refused(call("replay", "./own"), "is not what gwd with the captured parameters does")


def test_a_trace_that_goes_nowhere() -> None:
    """Blocks that never reveal and never retire: found by the replay, since no rule forbids it."""
    folder = own("ref-single-block-m0.9")
    zero = lambda old: [0] * len(old)  # noqa: E731 (used thrice)
    rows = range(pq.read_metadata(folder / "blocks.parquet").num_rows)
    stuck = {row: lambda old: [old[0] or 16] * len(old) for row in rows}
    with_table(folder, "blocks", with_cells("masked", stuck))
    with_table(folder, "blocks", with_cells("revealed", dict.fromkeys(rows, zero)))
    with_table(folder, "blocks", with_cells("retired", dict.fromkeys(rows, -1)))
    steps = range(pq.read_metadata(folder / "steps.parquet").num_rows)
    for column in ("revealed", "committed_tokens"):
        with_table(folder, "steps", with_cells(column, dict.fromkeys(steps, 0)))
    requests = range(pq.read_metadata(folder / "requests.parquet").num_rows)
    with_table(folder, "requests", with_cells("output_tokens", dict.fromkeys(requests, 0)))
    with_table(folder, "requests", with_cells("output", {row: [] for row in requests}))
    with_fields(folder, counts__output_tokens=0)

    check_refused(call("replay", "./own"), "has no block that ends")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": 2}, "format_version: must be 1, got 2"),
        ({"records": "dreams"}, "records: no records 'dreams'; known: blocks, iterations"),
        ({"tables__steps__file": "../x.parquet"}, "tables.steps.file is steps.parquet or"),
        ({"tables__steps__file": "/etc/passwd"}, "tables.steps.file is steps.parquet or"),
        ({"tables__steps__file": "blocks.parquet"}, "tables.steps.file is steps.parquet or"),
        ({"tables__steps__rows": 7}, "has 7 rows by the manifest, got 1314"),
        ({"policy": "nothing"}, "policy: a trace of nothing tells of no policy"),
        ({"parameters__window": 77}, "window: must be less than or equal to 64, got 77"),
        ({"parameters__theta_spawn": "high"}, "theta_spawn: must be a number"),
        ({"counts__output_tokens": 1}, "counts.output_tokens: is 7420 by the tables, got 1"),
        ({"requests_asked": 500}, "a complete trace has all 500 requests_asked, got 128"),
    ],
)
def test_a_manifest_that_is_wrong(changes: dict[str, Any], words: str) -> None:
    """The field is told; no file outside the folder is opened."""
    folder = own()
    tokens = TRACES.get(WAVE).counts.output_tokens
    rows = pq.read_metadata(folder / "steps.parquet").num_rows
    with_fields(folder, **changes)

    words = words.replace("7420", str(tokens)).replace("1314", str(rows))
    check_refused(call("replay", "./own"), words)


def test_tables_that_cannot_be_read() -> None:
    """Cut off, cut off with a right hash, no Parquet at all, a folder, and gone."""
    folder = own()
    path = folder / "steps.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    check_refused(call("replay", "./own"), "steps.parquet: has the SHA-256")
    for content in (whole[:1000], b"", b"PAR1", whole[:-1] + b"2"):
        with_bytes(folder, "steps", content)
        check_refused(call("replay", "./own"), "steps.parquet: is no readable Parquet table")
    path.unlink()
    check_refused(call("replay", "./own"), "steps.parquet: cannot be read: No such file")
    path.mkdir()
    check_refused(call("replay", "./own"), "steps.parquet: cannot be read: Is a directory")


def test_what_is_no_trace() -> None:
    """An empty folder, none, a file, an unknown name, a published trace without requests."""
    Path("empty").mkdir()
    Path("file").write_text("text", encoding="utf-8")
    check_refused(call("replay", "./empty"), "cannot be read: No such file or directory")
    check_refused(call("replay", "./nowhere"), "cannot be read: No such file or directory")
    check_refused(call("replay", "./file"), "a mapping of fields is needed")
    check_refused(call("replay", "ref-gwd-w9"), "no trace 'ref-gwd-w9'; did you mean ref-gwd-w1")
    check_refused(call("replay", "uno-qwen3-8b-t0"), "only captured traces are replayed")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        (WAVE, ["policy=d2f"], "is of gwd; known: ref-d2f, ref-d2f-a0.1-m0.7, ref-d2f-a0.7-m0.7"),
        (WAVE, ["policy=ar"], "a trace of gwd tells of gwd, joint-threshold; no such policy 'ar'"),
        (WAVE, ["policy=3"], "no such policy '3'"),
        (WAVE, ["window=0"], "window: must be greater than or equal to 1, got 0"),
        (WAVE, ["window=65"], "window: must be less than or equal to 64, got 65"),
        (WAVE, ["window=2.5"], "window: must be an integer, got 2.5"),
        (WAVE, ["window=null"], "window: must be an integer, got None"),
        (WAVE, ["theta_spawn=2"], "theta_spawn: must be less than or equal to 1, got 2"),
        (WAVE, ["theta_spawn=.nan"], "theta_spawn: must be a finite number, got nan"),
        (WAVE, ["batching=loud"], "batching: must be 'packed' or 'synchronous', got 'loud'"),
        (WAVE, ["windo=2"], "no setting 'windo'; did you mean window or full_window? known: batch"),
        (WAVE, ["trace=x"], "trace: no setting 'trace'; known: batch, batching"),
        (WAVE, ["tokens_per_forward=3"], "no setting 'tokens_per_forward'"),
        (WAVE, ["block=8"], "was decoded in blocks of 16, and how other blocks fare"),
        (WAVE, ["batch=0"], "batch: must be a whole number of 1 to 1000000, got 0"),
        (WAVE, ["batch=true"], "batch: must be a whole number of 1 to 1000000, got True"),
        (WAVE, ["tau_mask=0.9"], "the trace recorded what tau_mask 0.7 did, got 0.9; capture"),
        (WAVE, ["policy=joint-threshold", "window=2"], "a replay may change policy, batch, post_"),
        (WAVE, ["window"], "'window': must be key=value"),
        (WAVE, ["a.b=2"], "a.b: no setting 'a.b'"),
        (
            "ref-d2f",
            ["policy=gwd"],
            "gwd replays traces of blocks by gwd, joint-threshold; ref-d2f",
        ),
    ],
)
def test_settings_that_a_trace_cannot_answer(name: str, settings: list[str], words: str) -> None:
    """The setting, what is wrong, and what would be right."""
    given = [word for setting in settings for word in ("--set", setting)]

    check_refused(call("replay", name, *given, "--steps", "new.parquet"), words)
    assert files() == set()


def test_all_mistakes_are_told_at_once() -> None:
    """Of several settings each its line."""
    answer = call("replay", WAVE, *("--set", "window=0", "--set", "batch=0", "--set", "tau_mask=1"))
    for words in ("window: must be", "batch: must be", "tau_mask: the trace recorded"):
        check_refused(answer, words)


def test_the_traces_named_would_be_right() -> None:
    """Those that edit are not offered to a policy that never does."""
    answer = call("replay", "ref-block-buffer-edit", "--set", "policy=multi-block")
    check_refused(answer, "multi-block never overwrites a token, ref-block-buffer-edit does")
    known = answer.err.split("known: ")[1].split(", ")
    assert "ref-multi-block" in known
    assert not [name for name in known if "edit" in name]
    for name in known[::4]:
        assert call("replay", name.strip(), "--set", "policy=multi-block", "--json").code == 0


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        (WAVE, "window=2", "would be counterfactual: (window 2, captured 3)"),
        ("ref-gwd-synchronous-b4", "batch=2", "would be counterfactual: (batch 2, captured 4)"),
        ("ref-gwd-w1", "policy=joint-threshold", "counterfactual: (joint-threshold from"),
    ],
)
def test_only_what_is_exact(name: str, setting: str, words: str) -> None:
    """--exact refuses anything else, and writes nothing."""
    words = words.replace("(policy, ", "(joint-threshold from a trace of gwd")

    check_refused(
        call("replay", name, "--exact", "--set", setting, "--steps", "new.parquet"), words
    )
    assert files() == set()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("old.parquet", "exists already; choose a new file"),
        ("new.csv", "is a table; name it FILE.parquet"),
        ("new", "is a table; name it FILE.parquet"),
        ("nowhere/new.parquet", "is in a folder that does not exist"),
    ],
)
def test_where_forwards_cannot_be_written(path: str, words: str) -> None:
    """An existing file stays as it was, and nothing new appears."""
    Path("old.parquet").write_text("mine", encoding="utf-8")

    check_refused(call("replay", WAVE, "--steps", path), words)
    assert files() == {"old.parquet"}
    assert Path("old.parquet").read_text(encoding="utf-8") == "mine"


def test_batches_of_other_sizes_are_still_exact() -> None:
    """Packed rows do not wait, so their forwards are the captured ones in any batch."""
    found = json.loads(call("replay", WAVE, "--exact", "--set", "batch=1", "--json").out)

    trace = read_block_trace(TRACES.path(WAVE).parent)
    assert found["batch_forwards"] == np.sum(trace.requests["denoise_forwards"]) + np.sum(
        trace.requests["prefill_forwards"]
    )
