"""How everything on the terminal is laid out."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table


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
    """A table whose first column stays whole; the others are figures, set to the right."""
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
        made.add_column(column, justify="left" if first else "right", no_wrap=first)
    for row in rows:
        made.add_row(*row)
    return made
