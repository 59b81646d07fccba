"""Ctrl-C as something to ask about, for work that must end between two steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed while inside; pressed twice it interrupts at once, as ever."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def press(*_: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
