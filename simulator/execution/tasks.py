"""Tasks: a function of many arguments, run in a pool until each has an answer."""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from simulator.execution.pool import Pool, TaskLostError

Key = TypeVar("Key", bound=Hashable)
A = TypeVar("A")
B = TypeVar("B")

MOST_DEATHS: Final = 2
"""Of a task's process while it ran alone; after that it is lost."""
DIED: Final = f"its process died {MOST_DEATHS} times; too little memory, perhaps"


@dataclass(frozen=True)
class Lost:
    """A task without an answer, since its process died every time."""

    what: str
    """A sentence."""


class Tasks(Generic[Key, A, B]):
    """`function(argument)` for every (key, argument) that is added.

    A process may be killed, for want of memory for example, and takes the whole pool with it. Which
    task it was nobody knows, so all that were under way run again, one at a time: nothing is lost
    but a task that kills its process again, and nothing is answered twice.
    """

    def __init__(self, pool: Pool, function: Callable[[A], B]) -> None:
        """Start with no task."""
        self._pool, self._function = pool, function
        self._waiting: deque[tuple[Key, A]] = deque()
        self._suspects: deque[tuple[Key, A]] = deque()
        self._under_way: dict[Future[B], tuple[Key, A]] = {}
        self._lost: deque[Key] = deque()
        self._deaths: Counter[Key] = Counter()
        self._is_alone = False

    def __len__(self) -> int:
        """Tasks without an answer so far."""
        parts = (self._waiting, self._suspects, self._under_way, self._lost)
        return sum(len(part) for part in parts)

    @property
    def has_room(self) -> bool:
        """Whether another task would not have to wait for long."""
        return len(self) < self._pool.room

    def add(self, key: Key, argument: A) -> None:
        """Let the task wait for its turn."""
        self._waiting.append((key, argument))

    def next_finished(self) -> tuple[Key, B | Lost]:
        """The key and the answer of a task that is over; blocks until there is one.

        Raises what the function raised, and ValueError when there is no task.
        """
        while len(self):
            self._start()
            if self._lost:
                return self._lost.popleft(), Lost(DIED)
            done = wait(self._under_way, return_when=FIRST_COMPLETED).done
            future = next(future for future in self._under_way if future in done)
            try:
                answer: B | Lost = future.result()
            except TaskLostError as error:
                answer = Lost(str(error))
            except BrokenExecutor:
                self._recover()
                continue
            key, _ = self._under_way.pop(future)
            return key, answer
        message = "there is no task to wait for"
        raise ValueError(message)

    def _start(self) -> None:
        """Fill the room; suspects run alone."""
        try:
            if self._suspects:
                if not self._under_way:
                    self._submit(self._suspects)
                    self._is_alone = True
                return
            if self._under_way and self._is_alone:
                return
            self._is_alone = False
            while self._waiting and len(self._under_way) < self._pool.room:
                self._submit(self._waiting)
        except BrokenExecutor:  # a process died that had nothing to do
            self._recover()
            self._start()

    def _submit(self, queue: deque[tuple[Key, A]]) -> None:
        """Start the first of *queue*, which it leaves only then."""
        self._under_way[self._pool.submit(self._function, queue[0][1])] = queue[0]
        queue.popleft()

    def _recover(self) -> None:
        """Whole again: what was under way is to run again, but for a task that is lost."""
        wait(self._under_way)
        broken = [future for future in self._under_way if future.exception() is not None]
        tasks = [self._under_way.pop(future) for future in broken]
        self._pool.restart()
        if self._is_alone:
            self._deaths.update(key for key, _ in tasks)
        for key, argument in tasks:
            if self._deaths[key] < MOST_DEATHS:
                self._suspects.append((key, argument))
            else:
                self._lost.append(key)
