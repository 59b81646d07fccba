"""A progress bar on standard error, which never mixes with an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def bar(words: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar for *total* pieces of work while inside; call what it yields after each."""
    with _progress() as progress:
        task = progress.add_task(words, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def share_bar(words: str) -> Iterator[Callable[[float, str], None]]:
    """Show a bar while inside; call what it yields with the share that is done and what is next."""
    with _progress() as progress:
        task = progress.add_task(words, total=1.0)
        yield lambda share, what: progress.update(
            task, completed=share, description=f"{words}: {what}"
        )


def _progress() -> Progress:
    """A bar that goes when it is done, and is not there where nobody looks."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
