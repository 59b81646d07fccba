"""Writing of captured traces: what is read back, equal bytes, and a kill at any moment."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.traces import tiny_iterations
from tests.traces.tiny_trace import FIELDS, ROWS, TABLES, fields, table_of
from traces.reading import read_trace
from traces.trace_error import TraceError
from traces.writing import write_trace


def snapshot(**changes: Any) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The first two requests as a snapshot of a capture of three."""
    counts = {"counts__requests": 2, "counts__output_tokens": 10, "counts__store_forwards": 2}
    counts |= {"counts__denoise_forwards": 8, "counts__prefill_forwards": 1}
    counts |= {"counts__batch_forwards": 8, "counts__batch_prefill_forwards": 1}
    early = {name: [row for row in rows if row["request"] < 2] for name, rows in ROWS.items()}
    made = {name: table_of(name, rows) for name, rows in early.items()}
    return fields(partial=True, **counts, **changes), made


def first_iterations() -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The first request of iterations as a snapshot of a capture of four."""
    tiny = tiny_iterations.TINY
    counts = {"requests": 1, "output_tokens": 9, "iterations": 3, "prefill_forwards": 1}
    counts |= {"draft_forwards": 3, "verify_forwards": 3}
    counts |= {"batch_forwards": 7, "batch_prefill_forwards": 1}
    early = {name: [row for row in rows if row["request"] < 1] for name, rows in tiny.rows.items()}
    tables = {name: tiny.table_of(name, rows) for name, rows in early.items()}
    accuracy = {"correct": 1.0, "valid": 1.0}
    return tiny.fields(partial=True, counts=counts, accuracy=accuracy), tables


def names(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(path.name for path in folder.iterdir())


PLAIN = ["blocks.parquet", "manifest.yaml", "requests.parquet", "steps.parquet"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every field and every cell, and nothing lies beside the manifest and its tables."""
    wrote = write_trace(tmp_path / "new" / "tiny", FIELDS, TABLES)
    trace = read_trace(tmp_path / "new" / "tiny")
    assert trace.manifest == wrote
    for name, value in FIELDS.items():
        told = getattr(trace.manifest, name)
        if name == "warnings":
            assert told == tuple(value)
        elif name not in {"counts", "checkpoint", "accuracy"}:
            assert told == value
        else:
            assert vars(told) == value
    for name, rows in ROWS.items():
        assert trace.table(name).to_pylist() == rows
    assert names(tmp_path / "new" / "tiny") == PLAIN


def test_iterations_are_written_and_read(tmp_path: Path) -> None:
    """The kind is that of the fields: every field and every cell come back, cells in any order."""
    turned = {name: table[::-1] for name, table in tiny_iterations.TABLES.items()}
    wrote = write_trace(tmp_path, tiny_iterations.FIELDS, turned)
    trace = read_trace(tmp_path)
    assert trace.manifest == wrote
    plain = dataclasses.asdict(trace.manifest)
    for name, value in tiny_iterations.FIELDS.items():
        assert plain[name] == (tuple(value) if name == "warnings" else value)
    for name, rows in tiny_iterations.ROWS.items():
        assert trace.table(name).to_pylist() == rows
    assert names(tmp_path) == sorted(["manifest.yaml", *(f"{n}.parquet" for n in turned)])


@pytest.mark.parametrize("records", [None, "steps"])
def test_fields_that_name_no_kind_are_refused(records: str | None, tmp_path: Path) -> None:
    """Nothing is written where it is not said what the tables hold."""
    with pytest.raises(TraceError, match=f"records: is blocks or iterations, got {records!r}"):
        write_trace(tmp_path / "new", fields(records=records), TABLES)
    assert not (tmp_path / "new").exists()


def test_the_same_rows_in_any_order_are_the_same_bytes(tmp_path: Path) -> None:
    """Rows backwards, and words numbered otherwise, leave equal files."""
    write_trace(tmp_path / "one", FIELDS, TABLES)
    backwards = {name: table_of(name, rows[::-1]) for name, rows in ROWS.items()}
    turned = {name: table[::-1] for name, table in TABLES.items()}
    for folder, made in (("two", backwards), ("three", turned), ("one", TABLES)):
        write_trace(tmp_path / folder, FIELDS, made)
        for name in PLAIN:
            expected = (tmp_path / "one" / name).read_bytes()
            assert (tmp_path / folder / name).read_bytes() == expected


def test_snapshots_have_numbers_and_the_last_one_none(tmp_path: Path) -> None:
    """Each snapshot replaces the one before; the tables of a complete trace have plain names."""
    for number in (1, 2):
        write_trace(tmp_path, *snapshot())
        numbered = [f"{name}.{number}.parquet" for name in ("blocks", "requests", "steps")]
        assert names(tmp_path) == sorted([*numbered, "manifest.yaml"])
        assert read_trace(tmp_path).manifest.partial
    write_trace(tmp_path, FIELDS, TABLES)
    assert names(tmp_path) == PLAIN


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Only tables of a trace are removed, and no other file, Parquet or not."""
    others = ["notes.txt", "other.parquet", "requests.old.parquet"]
    for name in others:
        (tmp_path / name).write_text("mine")
    write_trace(tmp_path, *snapshot())
    write_trace(tmp_path, FIELDS, TABLES)
    assert names(tmp_path) == sorted([*PLAIN, *others])


class KilledError(BaseException):
    """The process ends here."""


class Countdown:
    """Counts file operations, and ends the process in the last one, which is done by half."""

    def __init__(self, patch: pytest.MonkeyPatch, operations: int) -> None:
        """Replace what the writer does to files."""
        self.left = operations
        for name in ("write_bytes", "write_text", "replace", "unlink", "mkdir"):
            patch.setattr(Path, name, self.counted(name, getattr(Path, name)))

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """*real*, or half of it."""

        def operation(path: Path, *arguments: Any, **settings: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                if name.startswith("write"):
                    content = arguments[0][: len(arguments[0]) // 2]
                    with path.open("wb") as file:
                        file.write(content.encode() if isinstance(content, str) else content)
                raise KilledError
            return real(path, *arguments, **settings)

        return operation


COMPLETE = (FIELDS, TABLES)
OTHERWISE = (
    fields(seed=1),
    TABLES | {"requests": table_of("requests", [r | {"problem": 1} for r in ROWS["requests"]])},
)
TURNS = {
    "from nothing": [snapshot()],
    "a second snapshot": [snapshot(), snapshot(seed=1)],
    "its end": [snapshot(), COMPLETE],
    "written anew": [COMPLETE, OTHERWISE],
    "begun anew": [COMPLETE, snapshot(seed=1)],
    "complete at once": [COMPLETE],
    "iterations": [first_iterations(), (tiny_iterations.FIELDS, tiny_iterations.TABLES)],
}


@pytest.mark.parametrize("turn", TURNS)
def test_a_kill_at_any_moment_leaves_a_trace(turn: str, tmp_path: Path) -> None:
    """After each file operation the trace is the one before or the new one, and can go on."""
    *before, last = TURNS[turn]
    is_over = False
    for operations in range(30):
        if is_over:
            break
        folder = tmp_path / str(operations)
        for earlier in before:
            write_trace(folder, *earlier)
        old = read_trace(folder).manifest if before else None
        with pytest.MonkeyPatch.context() as patch:
            Countdown(patch, operations)
            try:
                write_trace(folder, *last)
                is_over = True
            except KilledError:
                pass
        if not before and not (folder / "manifest.yaml").exists():
            with pytest.raises(TraceError, match="No such file"):
                read_trace(folder)
        else:
            found = read_trace(folder).manifest
            if old is None or found.seed != old.seed or found.partial != old.partial:
                assert (found.seed, found.partial) == (last[0]["seed"], last[0]["partial"])
            else:
                assert found == old
        write_trace(folder, *last)
        wrote = read_trace(folder).manifest
        assert (wrote.seed, wrote.partial) == (last[0]["seed"], last[0]["partial"])
        assert len(names(folder)) == 4
    assert is_over


def test_contradicting_tables_are_not_written(tmp_path: Path) -> None:
    """What could not be read is refused before a file is touched."""
    with pytest.raises(TraceError, match=r"counts\.output_tokens: is 18 by the tables, got 17"):
        write_trace(tmp_path / "new", fields(counts__output_tokens=17), TABLES)
    assert not (tmp_path / "new").exists()


def test_tables_that_are_none_of_a_trace(tmp_path: Path) -> None:
    """A table or column that is missing, a number that does not fit, and a wrong field."""
    with pytest.raises(TraceError, match="tables are requests, blocks, steps, got requests"):
        write_trace(tmp_path, FIELDS, {"requests": TABLES["requests"]})
    without = TABLES | {"steps": TABLES["steps"].drop_columns(["kind"])}
    with pytest.raises(TraceError, match=r"steps: .*kind"):
        write_trace(tmp_path, FIELDS, without)
    large = TABLES["steps"].drop_columns(["step"]).append_column("step", pa.array([2**40] * 16))
    with pytest.raises(TraceError, match=r"steps: .*1099511627776"):
        write_trace(tmp_path, FIELDS, TABLES | {"steps": large})
    with pytest.raises(ValidationError, match="seed"):
        write_trace(tmp_path, fields(seed=-1), TABLES)
