"""Pool: this process, or some of this machine, in which tasks run."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")

TASKS_PER_WORKER: Final = 2
"""Under way at once: one runs, the next is there when it ends."""
ORPHANED: Final = 1


class TaskLostError(RuntimeError):
    """Whatever ran a task died as often as it may."""


class Pool(Protocol):
    """Where tasks run."""

    @property
    def room(self) -> int:
        """Tasks that are to be under way at once."""

    def submit(self, function: Callable[[A], B], argument: A) -> "Future[B]":
        """Start `function(argument)`.

        The future raises BrokenExecutor when a process died, maybe another task's; the pool must be
        restarted then. It raises TaskLostError when the task is not to be tried again.
        """

    def restart(self) -> None:
        """Make a pool whose process died whole again."""


@contextmanager
def pool_of(workers: int) -> Iterator[Pool]:
    """So many processes; one is this process itself."""
    if workers == 1:
        yield ThisProcess()
        return
    processes = Processes(workers)
    is_over = False
    try:
        yield processes
        is_over = True
    finally:
        # Whoever was interrupted does not wait for what is under way.
        end = processes.close if is_over else processes.kill
        end()


class ThisProcess:
    """Runs each task at once, where it is submitted."""

    room = 1

    def submit(self, function: Callable[[A], B], argument: A) -> "Future[B]":
        """A future that is done."""
        future: Future[B] = Future()
        future.set_result(function(argument))
        return future

    def restart(self) -> None:
        """It cannot have died."""


class Processes:
    """Fresh processes of this machine: a fork would copy whatever threads the caller runs."""

    def __init__(self, workers: int) -> None:
        """Start so many *workers* as they are needed."""
        self._workers = workers
        self._executor = self._started()

    @property
    def room(self) -> int:
        """Tasks that are to be under way at once."""
        return TASKS_PER_WORKER * self._workers

    def submit(self, function: Callable[[A], B], argument: A) -> "Future[B]":
        """Hand the task to whoever is free first."""
        return self._executor.submit(function, argument)

    def restart(self) -> None:
        """New processes for those of a broken pool."""
        self._executor.shutdown(cancel_futures=True)
        self._executor = self._started()

    def close(self) -> None:
        """Let the processes go."""
        self._executor.shutdown()

    def kill(self) -> None:
        """End the processes, whatever they do."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()

    def _started(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Make a new process one that works by itself, and only as long as whoever began it lives.

    It is asked to run before numpy is imported: one process per core leaves no core for threads
    of its linear algebra.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Ctrl-C goes to every process of a terminal; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(ORPHANED)
