"""A progress bar on standard error, which never mixes with an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def bar(words: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar for *total* pieces of work while inside; call what it yields after each."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(words, total=total)
        yield lambda: progress.advance(task)
