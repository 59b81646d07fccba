"""Four requests decoded by hand: chains of 3 drafts, of which the end and the limit cut one each.

Two guaranteed tokens, at most 9 tokens of output; the first token of request 3 is the end token.
Requests 0 and 1 are one batch, 2 and 3 another.
"""

from collections.abc import Sequence
from typing import Any

from tests.traces.hand_made import HandMade, row
from traces.iteration_tables import SCHEMAS

FIELDS: dict[str, Any] = {
    "records": "iterations",
    "name": "tiny",
    "description": "By hand.",
    "policy": "uno-linear",
    "parameters": {"temperature": 0.0, "top_p": 1.0, "sample_top_k": None},
    "block_tokens": 4,
    "checkpoint": {"name": "draws", "sha256": "ab" * 32, "trained_block_tokens": 4},
    "target": {"name": "aims", "sha256": "cd" * 32},
    "guaranteed_tokens": 2,
    "task": "counting",
    "seed": 0,
    "batch": 2,
    "dtype": "float64",
    "output_limit_tokens": 9,
    "software": {"pencil": "2B"},
    "counts": {
        "requests": 4,
        "output_tokens": 22,
        "iterations": 6,
        "prefill_forwards": 4,
        "draft_forwards": 6,
        "verify_forwards": 6,
        # One prefill a batch; then 3 and 2 iterations of two forwards for the slower row.
        "batch_forwards": 12,
        "batch_prefill_forwards": 2,
    },
    "accuracy": {"correct": 0.5, "valid": 1.0},
    "warnings": ["decoded by hand"],
    "partial": False,
    "requests_asked": 4,
}


def _request(*values: Any) -> dict[str, Any]:
    return row(
        "request problem batch row prompt_tokens output_tokens iterations prefill_forwards "
        "draft_forwards verify_forwards finish_reason correct valid output",
        *values,
    )


def _iteration(*values: Any) -> dict[str, Any]:
    return row("request iteration prefix_tokens drafted nodes accepted emitted cut", *values)


def _steps(request: int, prompt_tokens: int, prefixes: Sequence[int]) -> list[dict[str, Any]]:
    """A prefill, then per iteration a draft forward and a verification, each of 4 queries."""
    names = (
        "request step iteration kind prefix_tokens query_tokens logit_rows adapter_tokens "
        "feature_tokens moved_tokens"
    )
    made = [row(names, request, 0, -1, "prefill", 0, prompt_tokens, 1, 0, 0, 0)]
    for n, prefix in enumerate(prefixes):
        made.append(row(names, request, 2 * n + 1, n, "draft", prefix, 4, 4, 3, 0, 0))
        made.append(row(names, request, 2 * n + 2, n, "verify", prefix + 1, 4, 4, 0, 0, 0))
    return made


# Correct, and valid.
RIGHT, WRONG, UNCHECKED = (True, True), (False, True), (None, None)
WHOLE, CUT = False, True

ROWS = {
    "requests": [
        # 1 + 4 + 2 + 3 tokens, of which the last is the end token.
        _request(0, 7, 0, 0, 5, 9, 3, 1, 3, 3, "end", *RIGHT, list(range(11, 20))),
        # 1 + 4 tokens: the end token is the last but one of the iteration.
        _request(1, 8, 0, 1, 3, 4, 1, 1, 1, 1, "end", *WRONG, list(range(21, 25))),
        # 1 + 5 + 3 tokens: the limit takes one.
        _request(2, 9, 1, 0, 4, 9, 2, 1, 2, 2, "limit", *UNCHECKED, list(range(31, 40))),
        _request(3, 6, 1, 1, 4, 0, 0, 1, 0, 0, "end", *UNCHECKED, []),
    ],
    "iterations": [
        _iteration(0, 0, 5, 3, 3, 2, 4, WHOLE),
        _iteration(0, 1, 9, 3, 3, 0, 2, WHOLE),
        _iteration(0, 2, 11, 3, 3, 1, 3, WHOLE),
        _iteration(1, 0, 3, 3, 3, 3, 4, CUT),
        _iteration(2, 0, 4, 3, 3, 3, 5, WHOLE),
        _iteration(2, 1, 9, 3, 3, 2, 3, CUT),
    ],
    "steps": [
        *_steps(0, 5, [5, 9, 11]),
        *_steps(1, 3, [3]),
        *_steps(2, 4, [4, 9]),
        *_steps(3, 4, []),
    ],
}

TINY = HandMade(FIELDS, ROWS, SCHEMAS)
TABLES = TINY.tables
fields, table_of, put, changed = TINY.fields, TINY.table_of, TINY.put, TINY.changed
