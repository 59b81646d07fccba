"""How everything on the terminal is laid out."""

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

# A longer curve is told in full by --json.
MOST_ROWS = 32
BAR_WIDTH = 20
BARS = " "
"""The name of a column of bars."""
WHY = "why"
"""The name of a column of sentences."""


def console() -> Console:
    """Prints as it stands: names and paths may have brackets, which are no markup."""
    return Console(highlight=False, markup=False)


def pairs(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and texts; a long text is broken below itself."""
    made = Table.grid(padding=(0, 1))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, text in rows:
        made.add_row(f" {name}", text)
    return made


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose first column stays whole; others are figures, to the right, bars or reasons."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0, 0, 1),
        show_header=any(columns),
    )
    for index, column in enumerate(columns):
        # Names stay whole; figures are narrow anyway.
        first = index == 0
        to_left = first or column in {BARS, WHY}
        made.add_column(column, justify="left" if to_left else "right", no_wrap=first)
    for row in rows:
        made.add_row(*row)
    return made


def bar(share: float) -> str:
    """A share as a bar."""
    return "#" * round(BAR_WIDTH * share)


def left_out(rows: int, what: str) -> Iterator[str]:
    """What to say of those *rows* that a table of MOST_ROWS has not."""
    if (more := rows - MOST_ROWS) > 0:
        yield f"{more} more {what}: --json has them\n"
