"""`blockcast sweep --scheduler`: the same table from a cluster, whatever happens to it."""

import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.cli.command import INSTALLED, call, small
from tests.simulator.execution.loopback import loopback

pytest.importorskip("distributed")

SCENARIO = small(workload__output_tokens=256, workload__requests=8)
GRID = {"workload.concurrency": [1, 2], "decode.block": list(range(2, 17))}
POINTS = 30
TABLES = ("results.parquet", "results.csv")


def write_sweep(folder: Path) -> Path:
    """30 points, each a moment's work."""
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({"scenario": SCENARIO, "grid": GRID}), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _sweep(tmp_path: Path) -> None:
    write_sweep(tmp_path)


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What is in the tables of one process here."""
    folder = tmp_path_factory.mktemp("near")
    assert call("sweep", write_sweep(folder), "--out", folder / "out", "--workers", 1).code == 0
    return [(folder / "out" / name).read_bytes() for name in TABLES]


def far() -> list[bytes]:
    """What is in the tables of the cluster."""
    return [(Path("far") / name).read_bytes() for name in TABLES]


def finished(folder: str) -> int:
    """Whole lines of a folder's journal."""
    journal = Path(folder) / "finished.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def started(address: str, *options: str) -> "subprocess.Popen[str]":
    """The sweep on a cluster, as a process."""
    command = [str(INSTALLED), "sweep", "sweep.yaml", "--out", "far", "--scheduler", address]
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)


def wait_for(points: int, process: "subprocess.Popen[str]") -> None:
    while finished("far") < points and process.poll() is None:
        time.sleep(0.005)


def test_a_worker_killed_half_way_changes_nothing(tmp_path: Path, near: list[bytes]) -> None:
    """Two workers, one killed half-way: every point once, and the table of one process here."""
    with loopback(tmp_path, 2) as cluster, started(cluster.address) as process:
        wait_for(8, process)
        cluster.workers[0].kill()
        killed_at = finished("far")
        _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert 8 <= killed_at < POINTS
    assert finished("far") == POINTS
    assert far() == near


def test_a_lost_scheduler_leaves_what_is_finished(tmp_path: Path, near: list[bytes]) -> None:
    """Its end is told in a line, and --resume goes on here to the same table."""
    with loopback(tmp_path, 1) as cluster, started(cluster.address) as process:
        wait_for(5, process)
        cluster.scheduler.kill()
        _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"the scheduler at {cluster.address} is gone" in error
    assert "--resume" in error
    assert "Traceback" not in error
    assert 5 <= finished("far") < POINTS
    assert call("sweep", "sweep.yaml", "--out", "far", "--workers", 1, "--resume").code == 0
    assert far() == near


def test_a_scheduler_that_does_not_answer() -> None:
    """One line names the address; nothing has run."""
    answer = call("sweep", "sweep.yaml", "--out", "far", "--scheduler", "tcp://127.0.0.1:1")
    assert answer.code == 1
    assert "--scheduler" in answer.err
    assert "no scheduler answers at tcp://127.0.0.1:1 within 10 s" in answer.err
    assert finished("far") == 0
