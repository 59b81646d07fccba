"""What a result's folder holds, and that it is there whole or not at all."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml

from simulator.documents import DocumentError
from simulator.engine import Simulated
from simulator.measure import whole_run
from simulator.records import RejectedRecord, RequestRecord, RunRecords
from simulator.result import RunResult
from simulator.result_folder import write

REJECTED = RejectedRecord(7, 1 / 3, 10**9, 5, 'too long, by "far"')


def result_of(records: RunRecords) -> RunResult:
    """A result with *records*, and a summary that is no more than a scenario."""
    summary = {"scenario": {"model": "any"}, "metrics": {"tokens": 1.5}}
    return RunResult(summary, Simulated(cast("Any", None), records, ()), whole_run(records))


def some_records(*, keep_steps: bool = True) -> RunRecords:
    """Three thousand requests, as many steps, one request rejected."""
    records = RunRecords(keep_steps=keep_steps)
    generator = np.random.default_rng(8)
    for i in range(3000):
        a, b, c, d = np.cumsum(generator.exponential(1e-5 if i % 2 else 1e5, 4)).tolist()
        record = RequestRecord(i, 9, 9, a, b, c, d, 1, 8, 8, 1, cached_prefix_tokens=i)
        records.add_request(record, np.array([]))
    records.add_steps(
        start_s=np.arange(3000) / 7,
        seconds=np.full(3000, 1 / 7),
        batch_rows=np.arange(3000),
        rows=np.arange(3000),
        query_tokens=np.arange(3000),
        emitted_tokens=np.arange(3000),
        kv_used_bytes=np.full(3000, 1e10 / 3),
        forwards=2,
        prefill=False,
    )
    records.rejected.append(REJECTED)
    return records


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a CSV file; numbers and truths as such."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_the_files_hold_the_records(tmp_path: Path) -> None:
    """Every record of every kind is a line, to its last digit."""
    records = some_records()
    write(result_of(records), tmp_path / "deep" / "out")

    out = tmp_path / "deep" / "out"
    assert rows(out / "requests.csv") == [record._asdict() for record in records.requests]
    assert rows(out / "steps.csv") == [asdict(record) for record in records.steps]
    assert rows(out / "rejected.csv") == [asdict(REJECTED)]
    assert yaml.safe_load((out / "scenario.yaml").read_text(encoding="utf-8")) == {"model": "any"}
    assert json.loads((out / "result.json").read_text(encoding="utf-8"))["metrics"]["tokens"] == 1.5
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_files_without_a_record_are_left_out(tmp_path: Path) -> None:
    """No table of steps when they were not kept, none of rejected requests without one."""
    write(result_of(some_records(keep_steps=False)), tmp_path / "a")
    write(result_of(RunRecords()), tmp_path / "b")

    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "result.json",
        "scenario.yaml",
        "requests.csv",
        "rejected.csv",
    }
    assert rows(tmp_path / "b" / "requests.csv") == rows(tmp_path / "b" / "steps.csv") == []


@pytest.mark.parametrize("kind", ["file", "folder", "full folder"])
def test_nothing_is_overwritten(tmp_path: Path, kind: str) -> None:
    """What is at the destination already stays as it is."""
    place = tmp_path / "out"
    if kind == "file":
        place.write_text("mine", encoding="utf-8")
    else:
        place.mkdir()
    if kind == "full folder":
        (place / "mine").touch()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(DocumentError, match="exists already"):
        write(result_of(some_records()), place)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's result that came first is neither replaced nor added to."""
    place = tmp_path / "out"
    result = result_of(some_records())

    def told(self: RunResult) -> str:
        assert self is result
        place.mkdir()
        (place / "theirs").touch()
        return "{}"

    monkeypatch.setattr(RunResult, "to_json", told)
    with pytest.raises(DocumentError, match="cannot be written"):
        write(result, place)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "theirs"]


WRITER = """
    import os, resource, signal, sys
    from pathlib import Path
    from simulator import result_folder
    from tests.simulator.test_result_folder import result_of, some_records

    result, how = result_of(some_records()), sys.argv[1]

    def interrupted(path, records, plain=result_folder._write_rows):
        plain(path, records)
        if path.name == "steps.csv":
            os.kill(os.getpid(), getattr(signal, how))

    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    else:
        result_folder._write_rows = interrupted
    result_folder.write(result, Path(sys.argv[2]) / "out")
"""


def ended(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process that writes a result into *folder* and is stopped half-way."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WRITER), how, str(folder)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "full"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, how: str) -> None:
    """Ctrl-C, a request to terminate, or a full disk while files are written: no folder at all."""
    process = ended(how, tmp_path)

    assert process.returncode not in {0, None}
    assert list(tmp_path.iterdir()) == []
    if how == "SIGTERM":
        assert process.returncode == 128 + signal.SIGTERM
    if how == "full":
        assert "cannot be written: File too large" in process.stderr


def test_a_killed_process_leaves_nothing_that_looks_like_a_result(tmp_path: Path) -> None:
    """After a kill there is a hidden folder beside, and nothing at the destination."""
    process = ended("SIGKILL", tmp_path)

    assert process.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".blockcast-")
