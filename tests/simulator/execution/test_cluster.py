"""Cluster: whatever dies, every task has one answer, or it is told why not."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.documents import DocumentError
from simulator.execution.cluster import Cluster, cluster_of
from simulator.execution.tasks import Lost, Tasks
from tests.simulator.execution.answers import every_answer
from tests.simulator.execution.loopback import BEGINS_S, Loopback, loopback

pytest.importorskip("distributed")

OTHER_VERSION = """
import importlib.metadata as metadata
real = metadata.version
metadata.version = lambda name: "9.9.9" if name == "blockcast" else real(name)
"""
NO_PACKAGE = """
import importlib.metadata as metadata
def version(name):
    raise metadata.PackageNotFoundError(name)
metadata.version = version
"""


def slowly_squared(number: int) -> int:
    time.sleep(0.02)
    return number * number


def die_or_square(number: int) -> int:
    """Kills its worker where *number* is negative."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def divided(number: int) -> float:
    return 1 / number


def unread(number: int) -> int:
    raise FileNotFoundError(number)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Two workers for tests that leave them alive."""
    with loopback(tmp_path_factory.mktemp("dask"), 2) as found:
        yield found


@pytest.fixture
def pool(shared: Loopback) -> Iterator[Cluster]:
    """Connected to the shared workers."""
    with cluster_of(shared.address, timeout_s=BEGINS_S) as found:
        yield found


def refused(address: str, timeout_s: float = 1.0) -> str:
    """What is said of an address that is of no use."""
    with pytest.raises(DocumentError) as caught, cluster_of(address, timeout_s=timeout_s):
        pass
    assert caught.value.origin == "--scheduler"
    return str(caught.value)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_every_task_is_answered(pool: Cluster) -> None:
    """As many answers as tasks, each of its own argument, equal arguments too."""
    tasks: Tasks[int, int, int] = Tasks(pool, slowly_squared)
    for number in range(40):
        tasks.add(number, number % 10)
    assert every_answer(tasks) == {number: (number % 10) ** 2 for number in range(40)}


def test_room_is_for_all_threads(pool: Cluster) -> None:
    """Two workers of a thread are given at least eight tasks at once."""
    assert pool.room >= 8


def test_what_a_task_raises_is_raised_here(pool: Cluster) -> None:
    """A task's own mistake is none of the cluster's, even if it is an OSError as a lost way is."""
    with pytest.raises(ZeroDivisionError):
        pool.submit(divided, 0).result()
    with pytest.raises(FileNotFoundError):
        pool.submit(unread, 1).result()


def test_a_worker_killed_half_way_costs_nothing(tmp_path: Path) -> None:
    """SIGKILL of one of two workers: all tasks are answered, none twice, by the other one."""
    with loopback(tmp_path, 2) as cluster, cluster_of(cluster.address, timeout_s=BEGINS_S) as pool:
        tasks: Tasks[int, int, int] = Tasks(pool, slowly_squared)
        for number in range(60):
            tasks.add(number, number)
        found = dict(tasks.next_finished() for _ in range(20))
        cluster.workers[0].kill()
        found |= every_answer(tasks)
    assert found == {number: number**2 for number in range(60)}


def test_a_task_that_kills_its_worker_is_lost_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of ten tasks kills whatever runs it; those that were beside it are answered."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with loopback(tmp_path, 0) as cluster:
        cluster.start_worker("--nanny")
        with cluster_of(cluster.address, timeout_s=BEGINS_S) as pool:
            tasks: Tasks[int, int, int] = Tasks(pool, die_or_square)
            for number in range(10):
                tasks.add(number, -number if number == 3 else number)
            found = every_answer(tasks)
    lost = found.pop(3)
    assert isinstance(lost, Lost)
    assert "died 1 times" in lost.what
    assert found == {number: number**2 for number in range(10) if number != 3}


def test_a_scheduler_that_dies_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is finished stays, and how to go on is said, without a line of Dask's own."""
    with loopback(tmp_path, 1) as cluster, cluster_of(cluster.address, timeout_s=BEGINS_S) as pool:
        tasks: Tasks[int, int, int] = Tasks(pool, slowly_squared)
        for number in range(200):
            tasks.add(number, number)
        assert isinstance(tasks.next_finished()[1], int)
        cluster.scheduler.kill()
        with pytest.raises(DocumentError, match="--resume") as caught:
            every_answer(tasks)
    assert cluster.address in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_scheduler_that_does_not_answer_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing listens: refused within the time that it was given, naming the address."""
    address = f"tcp://127.0.0.1:{free_port()}"
    start = time.monotonic()
    assert f"no scheduler answers at {address} within 1 s" in refused(address)
    assert time.monotonic() - start < 15
    assert capfd.readouterr().err == ""


def test_whoever_listens_may_be_no_scheduler(capfd: pytest.CaptureFixture[str]) -> None:
    """A port that is open but silent is no scheduler either."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert f"no scheduler answers at {address}" in refused(address)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "address",
    [
        *("", "foo", "tcp://", "tcp://h", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:0"),
        *("tcp://127.0.0.1:x", "http://127.0.0.1:80", "inproc://1/2/3", "tcp://:8786"),
    ],
)
def test_what_is_no_address_is_told(address: str) -> None:
    """A host and a port are asked for before anything is tried."""
    assert "is no address of a scheduler, as tcp://HOST:PORT" in refused(address)


@pytest.mark.parametrize("address", ["tcp://nowhere.invalid:8786", "tls://127.0.0.1:8786"])
def test_an_address_that_leads_nowhere_is_told(address: str) -> None:
    """A host that is not there, a protocol that is not set up."""
    assert f"no scheduler answers at {address}" in refused(address)


def test_a_scheduler_without_workers_is_told(tmp_path: Path) -> None:
    """Nobody would ever do the tasks; how to start a worker is said."""
    with loopback(tmp_path, 0) as cluster:
        told = refused(cluster.address)
    assert f"dask worker {cluster.address} --nthreads 1" in told


@pytest.mark.parametrize(
    ("script", "words"),
    [(OTHER_VERSION, "has blockcast 9.9.9, not "), (NO_PACKAGE, "has no blockcast, not ")],
)
def test_a_worker_of_another_version_is_told(tmp_path: Path, script: str, words: str) -> None:
    """Two programs would make one table; none of it is run."""
    (tmp_path / "preload.py").write_text(script)
    with loopback(tmp_path, 0) as cluster:
        cluster.start_worker("--preload", str(tmp_path / "preload.py"))
        told = refused(cluster.address, BEGINS_S)
    assert "the worker at tcp://127.0.0.1:" in told
    assert words in told


def test_a_worker_that_comes_later_is_asked_too(tmp_path: Path) -> None:
    """The version is looked at before every task."""
    (tmp_path / "preload.py").write_text(OTHER_VERSION)
    with loopback(tmp_path, 1) as cluster, cluster_of(cluster.address, timeout_s=BEGINS_S) as pool:
        assert pool.submit(slowly_squared, 3).result() == 9
        cluster.workers[0].kill()
        cluster.start_worker("--preload", str(tmp_path / "preload.py"))
        with pytest.raises(DocumentError, match=r"blockcast 9\.9\.9"):
            pool.submit(slowly_squared, 4).result(BEGINS_S)


def test_a_plain_install_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask is an extra."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install 'blockcast[cluster]'" in refused("tcp://127.0.0.1:8786")
