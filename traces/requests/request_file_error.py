"""RequestFileError: what is wrong with a file of requests, and where in it."""

from pathlib import Path


class RequestFileError(ValueError):
    """A file of requests that cannot be used: its path, the line and column, and the rule."""

    def __init__(self, path: Path, rule: str, *, line: int | None = None, column: str = "") -> None:
        """Keep the place; *line* counts from 1, the header's line with it."""
        self.path, self.rule, self.line, self.column = path, rule, line, column
        at = [f"line {line}"] if line is not None else []
        at += [f"column {printable(column)}"] if column else []
        place = ", ".join([printable(str(path)), *at])
        super().__init__(f"{place}: {rule}")


def printable(text: str) -> str:
    """*text* with what no terminal shows as Python writes it."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
