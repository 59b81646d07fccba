"""A Markdown page whose tables are made by a program: each lies between two markers."""

import re
from collections.abc import Mapping, Sequence


def with_tables(page: str, found: Mapping[str, str]) -> str:
    """*page* with each table between its markers, `<!-- table: NAME -->` and `<!-- end -->`."""
    for name, text in found.items():
        begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        place = re.compile(f"{re.escape(begin)}.*?{end}", re.DOTALL)
        page = place.sub((begin + text + "\n" + end).replace("\\", r"\\"), page)
    return page


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])
