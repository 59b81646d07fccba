"""TextColumn: some rows of one column as the file has them, and where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traces.requests.request_file_error import RequestFileError

# Characters of a value in a message.
MOST_SHOWN = 60

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextColumn:
    """The *cells* of column *name*: texts, numbers of JSON too; others are what JSON says."""

    path: Path
    name: str
    lines: IntArray
    cells: Sequence[object]

    def wrong(self, row: int, rule: str) -> RequestFileError:
        """What to raise where the value of *row* breaks *rule*."""
        line = int(self.lines[row])
        return RequestFileError(
            self.path, f"{rule}, got {shown(self.cells[row])}", line=line, column=self.name
        )


def shown(value: object) -> str:
    """A value as part of a one-line message, cut where it is long."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
