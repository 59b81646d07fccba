"""Three requests decoded by hand: stores of both kinds, an edit, dummies, a row without prefill.

Blocks of 4 tokens, at most 8 tokens of output. Request 0 and 1 are one batch, request 2 another.
"""

from typing import Any

from tests.traces.hand_made import HandMade, Rows, row
from traces.block_tables import SCHEMAS

FIELDS: dict[str, Any] = {
    "records": "blocks",
    "name": "tiny",
    "description": "By hand.",
    "policy": "single-block",
    "parameters": {"tau_mask": 0.9, "store": "separate", "block": None},
    "block_tokens": 4,
    "checkpoint": {"name": "none", "sha256": "ab" * 32, "trained_block_tokens": 4},
    "task": "counting",
    "seed": 0,
    "batch": 2,
    "dtype": "float64",
    "output_limit_tokens": 8,
    "software": {"pencil": "2B"},
    "counts": {
        "requests": 3,
        "output_tokens": 18,
        "prefill_forwards": 2,
        "denoise_forwards": 10,
        "store_forwards": 4,
        # In batch 0 row 1 denoises beside row 0's prefill: 8 forwards, and 5 in batch 1.
        "batch_forwards": 13,
        "batch_prefill_forwards": 2,
    },
    "accuracy": {"correct": 0.5, "valid": 1.0},
    "warnings": ["decoded by hand"],
    "partial": False,
    "requests_asked": 3,
}


def _request(*values: Any) -> dict[str, Any]:
    return row(
        "request problem batch row prompt_tokens output_tokens prefill_forwards denoise_forwards "
        "store_forwards finish_reason correct valid output",
        *values,
    )


def _block(*values: Any) -> dict[str, Any]:
    return row(
        "request block admitted finished retired masked ready revealed edited agreeing", *values
    )


def _step(*values: Any) -> dict[str, Any]:
    return row(
        "request step kind prefix_tokens query_tokens padded_tokens logit_rows window_left "
        "window_right revealed edited committed_tokens",
        *values,
    )


# Correct, and valid.
RIGHT, WRONG, UNCHECKED = (True, True), (False, True), (None, None)

ROWS: dict[str, Rows] = {
    "requests": [
        _request(0, 7, 0, 0, 5, 5, 1, 4, 2, "end", *RIGHT, [11, 12, 13, 14, 15]),
        _request(1, 8, 0, 1, 3, 5, 0, 4, 0, "end", *WRONG, [21, 22, 23, 24, 25]),
        _request(2, 9, 1, 0, 4, 8, 1, 2, 2, "limit", *UNCHECKED, list(range(31, 39))),
    ],
    "blocks": [
        _block(0, 0, 1, 2, 3, [3, 1], [2, 1], [2, 1], [0, 0], [0, 2]),
        _block(0, 1, 4, 5, 6, [4, 3], [0, 3], [1, 3], [0, 0], [0, 1]),
        _block(1, 0, 0, 0, 1, [1], [0], [1], [0], [0]),
        _block(1, 1, 1, 3, 3, [4, 0, 0], [4, 0, 0], [4, 0, 0], [0, 1, 0], [0, 3, 4]),
        _block(2, 0, 1, 1, 2, [4], [4], [4], [0], [0]),
        _block(2, 1, 3, 3, 4, [4], [4], [4], [0], [0]),
    ],
    "steps": [
        _step(0, 0, "prefill", 0, 4, 4, 0, 0, 0, 0, 0, 0),
        _step(0, 1, "denoise", 4, 4, 4, 4, 0, 1, 2, 0, 0),
        _step(0, 2, "denoise", 4, 4, 4, 4, 0, 1, 1, 0, 0),
        _step(0, 3, "store", 4, 4, 4, 4, 0, 1, 0, 0, 3),
        _step(0, 4, "denoise", 8, 4, 4, 4, 1, 2, 1, 0, 0),
        _step(0, 5, "denoise", 8, 4, 4, 4, 1, 2, 3, 0, 0),
        _step(0, 6, "store", 8, 4, 4, 4, 1, 2, 0, 0, 2),
        _step(1, 0, "denoise", 0, 4, 4, 4, 0, 1, 1, 0, 0),
        _step(1, 1, "fused-store", 0, 8, 8, 4, 0, 2, 4, 0, 1),
        _step(1, 2, "denoise", 4, 4, 4, 4, 1, 2, 0, 1, 0),
        _step(1, 3, "denoise", 4, 4, 4, 4, 1, 2, 0, 0, 4),
        _step(2, 0, "prefill", 0, 4, 4, 0, 0, 0, 0, 0, 0),
        _step(2, 1, "denoise", 4, 4, 4, 4, 0, 1, 4, 0, 0),
        _step(2, 2, "store", 4, 4, 4, 4, 0, 1, 0, 0, 4),
        _step(2, 3, "denoise", 8, 4, 8, 8, 1, 2, 4, 0, 0),
        _step(2, 4, "store", 8, 4, 8, 8, 1, 2, 0, 0, 4),
    ],
}


TINY = HandMade(FIELDS, ROWS, SCHEMAS)
TABLES = TINY.tables
fields, table_of, put, changed = TINY.fields, TINY.table_of, TINY.put, TINY.changed
