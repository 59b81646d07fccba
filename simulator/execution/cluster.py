"""Cluster: workers of a Dask scheduler, on whatever machines, in which tasks run."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import contextmanager
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simulator.execution.pool import TaskLostError
from simulator.execution.scheduler import PACKAGE, client_of, gone, refusal, told_when_gone

if TYPE_CHECKING:  # an extra, and slow to import
    from distributed import Client

A = TypeVar("A")
B = TypeVar("B")

TASKS_PER_THREAD: Final = 4
"""Under way at once: the next ones travel while one runs."""
LEAST_ROOM: Final = 8
COUNTED_EVERY_S: Final = 2.0
"""How old the number of threads may be; workers come and go."""


class WrongWorkerError(RuntimeError):
    """A worker has another version of the program than whoever gives it tasks."""


@contextmanager
def cluster_of(address: str, *, timeout_s: float = 10.0) -> Iterator["Cluster"]:
    """The workers of the scheduler at *address*, `tcp://HOST:PORT`; raises as `client_of` does."""
    with client_of(address, timeout_s) as client:
        cluster = Cluster(client, address)
        try:
            yield cluster
        finally:
            cluster.drop()


class Cluster:
    """A pool whose scheduler makes up for workers that die."""

    def __init__(self, client: "Client", address: str) -> None:
        """Give tasks to the scheduler of *client*."""
        self._client, self._address = client, address
        self._room, self._counted_s = LEAST_ROOM, -COUNTED_EVERY_S
        self._under_way: list[Future[Any]] = []
        """In order of submission."""

    @property
    def room(self) -> int:
        """Tasks that are to be under way at once; raises DocumentError when nobody answers."""
        if monotonic() - self._counted_s >= COUNTED_EVERY_S:
            with told_when_gone(self._address):
                threads = sum(self._client.nthreads().values())
            self._room, self._counted_s = max(LEAST_ROOM, TASKS_PER_THREAD * threads), monotonic()
        return self._room

    def submit(self, function: Callable[[A], B], argument: A) -> "Future[B]":
        """Give the task to the scheduler.

        The future raises DocumentError when the scheduler is gone or a worker is of no use, and
        BrokenExecutor when so many workers died that the task may be to blame, or another that was
        with it.
        """
        self._under_way = [each for each in self._under_way if not each.done()]
        is_first = not self._under_way
        with told_when_gone(self._address):
            given = self._client.submit(checked, version(PACKAGE), function, argument, pure=False)
            loop: Any = self._client.loop
        outcome = self._outcome(given, is_first=is_first)
        answer: Future[B] = asyncio.run_coroutine_threadsafe(outcome, loop.asyncio_loop)
        self._under_way.append(answer)
        return answer

    def restart(self) -> None:
        """The scheduler has other workers do what the dead ones did."""

    def drop(self) -> None:
        """Forget whatever is under way."""
        for each in self._under_way:
            each.cancel()

    async def _outcome(self, given: Any, *, is_first: bool) -> Any:  # noqa: ANN401 (of Dask)
        """What the task says, or what became of it in this program's words."""
        from distributed import KilledWorker  # noqa: PLC0415 (slow to import)

        try:
            return await given
        except KilledWorker as error:
            if is_first and len(self._under_way) <= 1:
                times = error.allowed_failures + 1
                message = f"its worker died {times} times; too little memory, perhaps"
                raise TaskLostError(message) from error
            raise BrokenExecutor(str(error)) from error
        except (WrongWorkerError, ModuleNotFoundError) as error:
            what = f"a worker is of no use: {error}"
            raise refusal(what) from error
        except (OSError, CancelledError) as error:
            if given.status == "error":  # of the task itself
                raise
            raise gone(self._address) from error


def checked(wanted: str, function: Callable[[A], B], argument: A) -> B:
    """`function(argument)`, on a worker; raises WrongWorkerError unless its version is *wanted*."""
    found = version(PACKAGE)
    if found != wanted:
        message = f"it has {PACKAGE} {found}, not {wanted}"
        raise WrongWorkerError(message)
    return function(argument)
