"""`blockcast sweep`: the table, what interrupts it, and going on as if nothing had."""

import csv
import fcntl
import json
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import INSTALLED, call, installed, small

TABLES = ("results.parquet", "results.csv")
# Far more than are finished while a test looks on.
POINTS = {"workload.concurrency": [1, 2, 3, 4], "decode.block": [2, 4, 8, 16, 32]}


def sweep(**fields: Any) -> Path:
    """A file with a sweep of the small scenario."""
    path = Path("sweep.yaml")
    document = {"scenario": small(workload__output_tokens=16), "grid": POINTS} | fields
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def table(folder: str) -> list[dict[str, str]]:
    """The rows of a folder's CSV."""
    with (Path(folder) / "results.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tables(folder: str) -> list[bytes]:
    """What is in both files of the table."""
    return [(Path(folder) / name).read_bytes() for name in TABLES]


def finished(folder: str) -> int:
    """Whole lines of a folder's journal."""
    journal = Path(folder) / "finished.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def interrupted(number: int, *arguments: object) -> tuple[int, str]:
    """A sweep in a process that gets a signal when a few points are on disk: its code, stderr."""
    command = [str(INSTALLED), "sweep", "sweep.yaml", "--out", "out", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while finished("out") < 3 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    return process.returncode, error


def test_the_table_and_the_fronts() -> None:
    """A row for every point in order, the number `run` gives, and fronts as the table has them."""
    path = sweep(grid={"workload.concurrency": [1, 2]}, repeat=2, gpu_hour_cost=2.0)
    answer = json.loads(call("sweep", path, "--out", "out", "--workers", 1, "--json").out)
    rows = table("out")
    assert [row["workload.concurrency"] for row in rows] == ["1", "1", "2", "2"]
    assert [row["seed"] for row in rows] == ["0", "1", "0", "1"]
    assert list(rows[0])[:4] == ["point", "name", "workload.concurrency", "seed"]
    settings = ["--set", "workload.concurrency=1", "--set", "workload.output_tokens=16"]
    scenario = Path("scenario.yaml")
    scenario.write_text(yaml.safe_dump(small()), encoding="utf-8")
    alone = json.loads(call("run", scenario, *settings, "--json").out)
    assert float(rows[0]["output_tokens_per_s"]) == alone["metrics"]["output_tokens_per_s"]
    assert float(rows[0]["latency_p99_s"]) == alone["metrics"]["latency_s"]["p99"]
    assert (answer["points"], answer["failed"], answer["out"]) == (4, 0, "out")
    assert list(answer["fronts"]) == ["throughput-speed", "cost-latency"]
    for name, members in answer["fronts"].items():
        on = [row for row in rows if row[f"on_front_{name}"] == "true"]
        numbers = {row["workload.concurrency"] for row in on}
        assert numbers == {str(member["workload.concurrency"]) for member in members}


def test_what_is_printed() -> None:
    """Points, failures with their reason, fronts and where the files are, in 100 columns."""
    path = sweep(grid={"workload.concurrency": [1, 2], "model": ["qwen3-8b", "qwen3-9b"]})
    answer = call("sweep", path, "--out", "out", "--workers", 1)
    assert answer.code == 0
    assert answer.err == ""
    assert "4 points, 2 failed" in answer.out
    assert "2 points failed: model: no model 'qwen3-9b'" in answer.out
    assert "throughput-speed" in answer.out
    assert "out: results.parquet, results.csv" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100
    assert [row["status"] for row in table("out")] == ["ok", "failed", "ok", "failed"]


def test_all_points_fail() -> None:
    """That is an error with the reasons; the table is there all the same."""
    answer = call("sweep", sweep(scenario=small(model="qwen3-9b")), "--out", "out", "--workers", 1)
    assert (answer.code, answer.out) == (1, "")
    assert "20 points: model: no model 'qwen3-9b'; did you mean qwen3-8b" in answer.err
    assert {row["status"] for row in table("out")} == {"failed"}


def test_a_killed_sweep_goes_on_to_the_same_table() -> None:
    """Killed half-way and gone on with by another number of workers, it is the same, byte by byte.

    What was finished is not run again.
    """
    path = sweep()
    code, _ = interrupted(signal.SIGKILL, "--workers", 2)
    before = (Path("out") / "finished.jsonl").read_bytes()
    assert code == -signal.SIGKILL
    assert 3 <= finished("out") < 20
    assert not any((Path("out") / name).exists() for name in TABLES)
    assert call("sweep", path, "--out", "out", "--resume", "--workers", 1).code == 0
    whole = before[: before.rfind(b"\n") + 1]
    assert (Path("out") / "finished.jsonl").read_bytes().startswith(whole)
    assert finished("out") == 20
    assert call("sweep", path, "--out", "calm", "--workers", 1).code == 0
    assert tables("out") == tables("calm")


@pytest.mark.parametrize(
    ("number", "workers", "expected"), [(signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)]
)
def test_asked_to_stop(number: int, workers: int, expected: int) -> None:
    """It says how much is on disk and how to go on, and leaves at once without a traceback."""
    sweep()
    code, error = interrupted(number, "--workers", workers)
    assert code == expected
    # Where runs are slow, lines of progress come before it.
    *progress, last = error.splitlines()
    assert last == (
        f"blockcast: stopped; {finished('out')} of 20 points are on disk; "
        "--resume goes on with them"
    )
    assert all(" of 20 points" in line for line in progress)


def test_a_stopped_sweep_goes_on_to_the_same_table() -> None:
    """With more workers than before, it is that of a sweep that nobody stopped."""
    path = sweep()
    interrupted(signal.SIGINT, "--workers", 1)
    assert call("sweep", path, "--out", "out", "--resume", "--workers", 2).code == 0
    assert call("sweep", path, "--out", "calm", "--workers", 1).code == 0
    assert tables("out") == tables("calm")


def with_small_files(
    most_bytes: int, path: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """The sweep of *path* by a process that can write no file of more than *most_bytes*."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    return subprocess.run(
        [str(INSTALLED), "sweep", str(path), "--out", "out", *options],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_full_disk_loses_nothing() -> None:
    """What does not fit is told with what is kept; with room again the sweep goes on."""
    path = sweep()
    full = with_small_files(20_000, path, "--workers", "1")
    assert full.returncode == 1
    assert 0 < finished("out") < 20
    assert (Path("out") / "finished.jsonl").read_bytes().endswith(b"\n")
    assert "cannot be written: File too large" in full.stderr
    assert f"{finished('out')} of 20 points are on disk; --resume goes on" in full.stderr
    assert "Traceback" not in full.stderr
    assert call("sweep", path, "--out", "out", "--resume", "--workers", 1).code == 0
    assert len(table("out")) == 20


def test_a_table_that_does_not_fit() -> None:
    """The points are kept, no half table is left, and --resume writes it."""
    path = sweep()
    call("sweep", path, "--out", "out", "--workers", 1)
    whole = tables("out")
    for name in TABLES:
        (Path("out") / name).unlink()

    full = with_small_files(5_000, path, "--resume")
    assert full.returncode == 1
    assert "20 of 20 points are on disk" in full.stderr
    assert {each.name for each in Path("out").iterdir()} == {
        "finished.jsonl",
        "manifest.json",
        "sweep.yaml",
    }
    call("sweep", path, "--out", "out", "--resume")
    assert tables("out") == whole


ONE = {"workload.concurrency": [1]}


def make_one() -> None:
    """A finished sweep of one point in `out`."""
    assert call("sweep", sweep(grid=ONE), "--out", "out", "--workers", 1).code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: sweep(grid={"workload.concurrency": [2]}), ["grid.workload.concurrency differs"]),
        (lambda: sweep(grid=ONE, repeat=2), ["repeat", "another sweep"]),
        (lambda: sweep(grid=ONE, scenario=small()), ["scenario.workload.output_tokens"]),
        (lambda: edit_manifest(blockcast="0.0.1"), ["made by blockcast 0.0.1, this is"]),
        (lambda: edit_manifest(format=2), ["has format 2, this is 1"]),
        (lambda: edit_manifest(kind="run"), ["is no result of a sweep"]),
        (Path("out/manifest.json").unlink, ["is no result of a sweep"]),
        (Path("out/finished.jsonl").unlink, ["it has no finished.jsonl"]),
        (lambda: Path("out/finished.jsonl").write_text("x\n"), ["line 1", "is not a row"]),
    ],
)
def test_a_folder_of_something_else(change: Callable[[], object], words: list[str]) -> None:
    """It is refused with what differs, and left as it is."""
    make_one()
    change()
    before = {each.name: each.read_bytes() for each in Path("out").iterdir()}
    answer = call("sweep", "sweep.yaml", "--out", "out", "--resume", "--workers", 1)
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err.replace(": differs", " differs") for word in words), answer.err
    assert {each.name: each.read_bytes() for each in Path("out").iterdir()} == before


def edit_manifest(**fields: Any) -> None:
    """The manifest in `out` with other fields."""
    path = Path("out/manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8")) | fields
    path.write_text(json.dumps(manifest), encoding="utf-8")


def test_a_file_that_has_changed() -> None:
    """A scenario that names a file is another one when the file has become another."""
    lengths = Path("lengths.csv")
    lengths.write_text("prompt_tokens,output_tokens\n64,16\n", encoding="utf-8")
    load = {"kind": "poisson", "rate_per_s": 5.0, "requests": 30, "lengths": "lengths.csv"}
    path = sweep(grid={"seed": [1]}, scenario=small(workload=load))
    first = call("sweep", path, "--out", "out", "--workers", 1)
    assert first.code == 0, first.err
    lengths.write_text("prompt_tokens,output_tokens\n64,17\n", encoding="utf-8")
    answer = call("sweep", path, "--out", "out", "--resume", "--workers", 1)
    assert answer.code == 1
    assert "what is in workload.lengths: lengths.csv has changed since" in answer.err


def test_an_existing_folder_is_left_alone() -> None:
    """Without --resume nothing that is there is touched; with it a new folder is begun."""
    make_one()
    answer = call("sweep", "sweep.yaml", "--out", "out", "--workers", 1)
    assert (answer.code, "exists already" in answer.err) == (1, True)
    assert call("sweep", "sweep.yaml", "--out", "new", "--resume", "--workers", 1).code == 0
    assert tables("new") == tables("out")
    Path("plain").mkdir()
    answer = call("sweep", "sweep.yaml", "--out", "plain", "--resume", "--workers", 1)
    assert (answer.code, "is no result of a sweep" in answer.err) == (1, True)


def test_two_processes_on_one_folder() -> None:
    """The second is refused while the first has it."""
    make_one()
    with Path("out/finished.jsonl").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = call("sweep", "sweep.yaml", "--out", "out", "--resume", "--workers", 1)
    assert (answer.code, "another process is at work" in answer.err) == (1, True)


def test_set_changes_the_base() -> None:
    """An override is in every point, and in the sweep that the folder keeps."""
    path = sweep(grid=ONE)
    call("sweep", path, "--out", "out", "--set", "hardware=h100-sxm", "--workers", 1)
    assert table("out")[0]["hardware"] == "h100-sxm"
    kept = Path("out/sweep.yaml")
    assert yaml.safe_load(kept.read_text(encoding="utf-8"))["scenario"]["hardware"] == "h100-sxm"
    # What is kept stands alone.
    assert call("sweep", kept, "--out", "again", "--workers", 1).code == 0
    assert tables("again") == tables("out")


def test_studies_have_names() -> None:
    """A shipped study is listed, shown, and found near a name that is none."""
    assert "window-gate" in call("list", "studies").out.split()
    assert "theta_spawn" in call("show", "study", "window-gate").out
    answer = call("sweep", "window-gat", "--out", "out")
    assert (answer.code, "did you mean window-gate" in answer.err) == (1, True)
    assert not Path("out").exists()


def test_workers_or_a_scheduler() -> None:
    """Both at once is a contradiction."""
    answer = call("sweep", sweep(), "--out", "out", "--workers", 1, "--scheduler", "tcp://x:1")
    assert answer.code == 2


def test_an_unwritable_place() -> None:
    """A folder that can never be is told, without a traceback."""
    Path("file").write_text("", encoding="utf-8")
    answer = installed("sweep", sweep(grid=ONE), "--out", "file/out")
    assert (answer.code, "Traceback" in answer.err) == (1, False)
    assert "file/out" in answer.err
