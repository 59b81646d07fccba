"""Three requests decoded by hand: stores of both kinds, an edit, dummies, a row without prefill.

Blocks of 4 tokens, at most 8 tokens of output. Request 0 and 1 are one batch, request 2 another.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from traces.block_tables import SCHEMAS

FIELDS: dict[str, Any] = {
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

Rows = list[dict[str, Any]]


def _request(*values: Any) -> dict[str, Any]:
    names = (
        "request problem batch row prompt_tokens output_tokens prefill_forwards denoise_forwards "
        "store_forwards finish_reason correct valid output"
    )
    return dict(zip(names.split(), values, strict=True))


def _block(*values: Any) -> dict[str, Any]:
    names = "request block admitted finished retired masked ready revealed edited agreeing"
    return dict(zip(names.split(), values, strict=True))


def _step(*values: Any) -> dict[str, Any]:
    names = (
        "request step kind prefix_tokens query_tokens padded_tokens logit_rows window_left "
        "window_right revealed edited committed_tokens"
    )
    return dict(zip(names.split(), values, strict=True))


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


def table_of(name: str, rows: Rows) -> pa.Table:
    """Rows as the table of *name*, in the order given."""
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name])


TABLES = {name: table_of(name, rows) for name, rows in ROWS.items()}


def fields(**changes: Any) -> dict[str, Any]:
    """The manifest's fields with some changed; `counts__requests` is counts.requests."""
    made = FIELDS | {name: dict(FIELDS[name]) for name in ("counts", "checkpoint", "accuracy")}
    for path, value in changes.items():
        *parents, last = path.split("__")
        holder = made
        for parent in parents:
            holder = holder[parent]
        holder[last] = value
    return made


def parquet(table: pa.Table) -> bytes:
    """A table as a file's bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


FILES = {name: parquet(table) for name, table in TABLES.items()}


def put(
    folder: Path, content: Mapping[str, bytes] = MappingProxyType({}), **changes: object
) -> Path:
    """The trace as it stands, unchecked, in *folder*; some tables' bytes and fields replaced."""
    folder.mkdir(exist_ok=True)
    files = FILES | dict(content)
    listed = {
        name: {
            "file": f"{name}.parquet",
            "rows": len(ROWS[name]),
            "sha256": hashlib.sha256(file).hexdigest(),
        }
        for name, file in files.items()
    }
    for name, file in files.items():
        (folder / f"{name}.parquet").write_bytes(file)
    always = {"format_version": 1, "kind": "captured", "records": "blocks", "tables": listed}
    (folder / "manifest.yaml").write_text(yaml.safe_dump(always | fields(**changes)))
    return folder
