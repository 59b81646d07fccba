"""Estimate: how many points of a sweep are done, and how long the others take, as it runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

EVERY_S: Final = 10.0
"""Between two lines where there is no terminal."""


@contextmanager
def estimate(total: int, done: int) -> Iterator[Callable[[], None]]:
    """Tell on standard error how far *total* points are; call what it yields after each.

    *done* of them were there before.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(total, done, console.print).advance
        return
    columns = (TextColumn("points"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("points", total=total, completed=done)
        yield lambda: progress.advance(task)


class Lines:
    """A line now and then: what is done of how many, and about how long the rest takes."""

    def __init__(
        self,
        total: int,
        done: int,
        say: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """*done* of *total* were there before, which says nothing of the pace."""
        self._total, self._done, self._say, self._clock_s = total, done, say, clock_s
        self._before = done
        self._begin_s = self._said_s = clock_s()

    def advance(self) -> None:
        """One more is done."""
        self._done += 1
        now_s = self._clock_s()
        if now_s - self._said_s < EVERY_S or self._done >= self._total:
            return
        self._said_s = now_s
        each_s = (now_s - self._begin_s) / (self._done - self._before)
        left = _span(each_s * (self._total - self._done))
        self._say(f"{self._done} of {self._total} points, about {left} left")


def _span(seconds: float) -> str:
    """Seconds with one unit, as people say how long something takes."""
    for unit_s, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"
