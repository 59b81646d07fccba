"""Tasks: every one has one answer, whatever happens to the processes that run them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulator.execution.pool import Processes, pool_of
from simulator.execution.tasks import Lost, Tasks
from tests.simulator.execution.answers import every_answer


def squared(number: int) -> int:
    return number * number


def die_or_square(number: int) -> int:
    """Kills its process where *number* is negative."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return squared(number)


def die_once(marker: str) -> str:
    """Kills its process the first time that it is called with the *marker*."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return marker


def blas_threads(_: int) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_task_is_answered(workers: int) -> None:
    """As many answers as tasks, each of its own argument."""
    with pool_of(workers) as pool:
        tasks: Tasks[int, int, int] = Tasks(pool, squared)
        for number in range(20):
            tasks.add(number, number)
        assert every_answer(tasks) == {number: number**2 for number in range(20)}


def test_tasks_are_added_while_others_run() -> None:
    """An answer may bring new tasks."""
    with pool_of(2) as pool:
        tasks: Tasks[int, int, int] = Tasks(pool, squared)
        tasks.add(2, 2)
        chain = []
        while len(tasks):
            key, answer = tasks.next_finished()
            chain.append((key, answer))
            if isinstance(answer, int) and answer < 1000:
                tasks.add(answer, answer)
    assert chain == [(2, 4), (4, 16), (16, 256), (256, 65536)]


def test_a_task_that_kills_its_process_is_lost_and_no_other() -> None:
    """Two of twelve tasks kill their process every time; the other ten are answered."""
    with pool_of(2) as pool:
        tasks: Tasks[int, int, int] = Tasks(pool, die_or_square)
        for number in range(12):
            tasks.add(number, -number if number in {3, 7} else number)
        found = every_answer(tasks)
    lost = {key for key, answer in found.items() if isinstance(answer, Lost)}
    assert lost == {3, 7}
    assert {key: found[key] for key in found.keys() - lost} == {
        number: number**2 for number in range(12) if number not in {3, 7}
    }


def test_a_process_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    """What was under way when a process was killed runs again."""
    with pool_of(2) as pool:
        tasks: Tasks[int, str, str] = Tasks(pool, die_once)
        for number in range(6):
            (tmp_path / f"{number}").touch()
            tasks.add(number, str(tmp_path / f"{number}"))
        (tmp_path / "2").unlink()
        found = dict(tasks.next_finished() for _ in range(6))
    assert found == {number: str(tmp_path / f"{number}") for number in range(6)}
    assert not len(tasks)


def test_idle_processes_may_die_between_two_tasks() -> None:
    """A pool that broke while nothing was under way is made whole at the next task."""
    processes = Processes(2)
    tasks: Tasks[int, int, int] = Tasks(processes, squared)
    tasks.add(1, 1)
    assert tasks.next_finished() == (1, 1)
    processes.submit(die_or_square, -1).exception()
    tasks.add(2, 2)
    assert tasks.next_finished() == (2, 4)
    processes.close()


def test_no_task_is_told() -> None:
    """Waiting for nothing is a mistake of the caller, not a way to hang."""
    with pool_of(1) as pool, pytest.raises(ValueError, match="no task"):
        Tasks(pool, squared).next_finished()


def test_a_process_keeps_to_one_thread_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process per core leaves no core for others."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with pool_of(2) as pool:
        assert pool.submit(blas_threads, 0).result() == "1"


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """A killed program leaves no process behind that computes on."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from simulator.execution.pool import pool_of\n"
        "if __name__ == '__main__':\n"
        "    with pool_of(2) as pool:\n"
        "        pool.submit(abs, 1).result()\n"
        "        import multiprocessing\n"
        "        print(*[p.pid for p in multiprocessing.active_children()], flush=True)\n"
        "        time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert parent.stdout is not None
    children = [int(number) for number in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert children
