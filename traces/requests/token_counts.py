"""Token counts and block identities of a column: whole numbers, each within its bounds."""

import json
import re

import numpy as np
import pyarrow as pa

from traces.requests.text_column import IntArray, TextColumn

MOST_TOKENS = 10_000_000
"""Of a prompt or an output: far above any context there is."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*")
_RULE = f"must be a whole number from 1 to {MOST_TOKENS}"


def token_counts(column: TextColumn) -> IntArray:
    """The counts [rows], from 0; raises RequestFileError naming the first that is none."""
    counts = _whole_numbers(column)
    wrong = np.flatnonzero((counts < 0) | (counts > MOST_TOKENS))
    if len(wrong):
        raise column.wrong(int(wrong[0]), _RULE)
    return counts


def check_no_zero(column: TextColumn, counts: IntArray) -> None:
    """Raise RequestFileError where a count is zero."""
    zeros = np.flatnonzero(counts == 0)
    if len(zeros):
        rule = f"{_RULE} (zero_lengths: skip leaves such rows out and counts them)"
        raise column.wrong(int(zeros[0]), rule)


def prefix_blocks(column: TextColumn) -> list[tuple[int, ...]]:
    """The identities of each row's leading prompt blocks: a list, or a text that is one."""
    return [_identities(column, row) for row in range(len(column.cells))]


def _whole_numbers(column: TextColumn) -> IntArray:
    try:
        texts = pa.array(column.cells, pa.string())
        if texts.null_count == 0:
            found: IntArray = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return found
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    return np.array([_whole_number(column, row) for row in range(len(column.cells))])


def _whole_number(column: TextColumn, row: int) -> int:
    """One value, where not all of a block are plain digits."""
    text = column.cells[row]
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        raise column.wrong(row, _RULE)
    digits = text.partition(".")[0].strip()
    # Longer ones are out of bounds, whatever they are.
    return int(digits) if len(digits) < len(str(2**62)) else MOST_TOKENS + 1


def _identities(column: TextColumn, row: int) -> tuple[int, ...]:
    value = column.cells[row]
    try:
        if isinstance(value, str):
            value = json.loads(value)
        if isinstance(value, list):
            return tuple(map(int, value))
    except (ValueError, TypeError, RecursionError):
        pass
    raise column.wrong(row, "must be a list of whole numbers")
