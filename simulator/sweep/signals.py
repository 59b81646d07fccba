"""Signals: a request to stop, as an exception wherever the program is."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


class StopAsked(BaseException):
    """Ctrl-C was pressed, or somebody wants the process to end."""

    def __init__(self, number: int) -> None:
        """Of a signal by its *number*."""
        super().__init__(number)
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise StopAsked for Ctrl-C and for a request to terminate; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        _restore(before)
        raise StopAsked(number)

    for number in STOPPING:
        signal.signal(number, stop)
    try:
        yield
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
