"""Writing of block traces: a reader sees the trace before or the one after, never a part."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import traces
from traces.block_rules import contradictions
from traces.block_tables import SCHEMAS, in_schema
from traces.captured import CAPTURED, TABLE_FILE, CapturedManifest
from traces.trace_error import TraceError, TraceMistake

ALWAYS: Final = {"format_version": 1, "kind": "captured", "records": "blocks"}
DRAFT = f".{traces.MANIFEST_FILE}.draft"


def write_block_trace(
    folder: Path, manifest_fields: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> CapturedManifest:
    """Put a block trace into *folder*, made where it is missing, and say what its manifest says.

    *manifest_fields* are those of CapturedManifest but `tables`; *tables* hold the columns of
    `block_tables.SCHEMAS` in any order of rows. A snapshot (partial) goes into files with a number
    of its own, and then the manifest is replaced at once, so a kill leaves the trace before or this
    one. A complete trace has files without numbers. The same input leaves the same bytes.

    Raises TraceError for tables that contradict the manifest or one another, pydantic's
    ValidationError (a ValueError) for wrong fields, and OSError.
    """
    ordered = _ordered(folder, tables)
    content = {name: _parquet(table) for name, table in ordered.items()}
    plain = _manifest(manifest_fields, ordered, content, number=None)
    if mistakes := list(contradictions(plain, ordered)):
        raise TraceError(folder, mistakes)
    folder.mkdir(parents=True, exist_ok=True)
    # Files that the manifest of a trace before may name are not written over.
    in_use = any((folder / table.file).exists() for table in plain.tables.values())
    if plain.partial or in_use:
        number = 1 + max((own for _, own in _tables_in(folder)), default=0)
        numbered = _manifest(manifest_fields, ordered, content, number=number)
        _put(folder, numbered, content)
        if plain.partial:
            return numbered
    _put(folder, plain, content)
    return plain


def _ordered(folder: Path, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    if set(tables) != set(SCHEMAS):
        rule = f"tables are {', '.join(SCHEMAS)}, got {', '.join(tables) or 'none'}"
        raise TraceError(folder, [TraceMistake(traces.MANIFEST_FILE, "tables", rule)])
    made, mistakes = {}, []
    for name in SCHEMAS:
        try:
            made[name] = in_schema(name, tables[name].select(SCHEMAS[name].names))
        except KeyError as error:
            mistakes.append(TraceMistake(name, "", str(error.args[0])))
        except (pa.ArrowException, ValueError) as error:
            mistakes.append(TraceMistake(name, "", str(error)))
    if mistakes:
        raise TraceError(folder, mistakes)
    return made


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _manifest(
    fields: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    content: Mapping[str, bytes],
    *,
    number: int | None,
) -> CapturedManifest:
    """The manifest with the files of snapshot *number*, or those of a complete trace."""
    suffix = "" if number is None else f".{number}"
    files = {
        name: {
            "file": f"{name}{suffix}.parquet",
            "rows": table.num_rows,
            "sha256": hashlib.sha256(content[name]).hexdigest(),
        }
        for name, table in tables.items()
    }
    return CAPTURED.validate_python({**ALWAYS, **fields, "tables": files})


def _put(folder: Path, manifest: CapturedManifest, content: Mapping[str, bytes]) -> None:
    """Write the tables, then the manifest, then remove the tables that it does not name."""
    named = {name: table.file for name, table in manifest.tables.items()}
    for name, file in named.items():
        (folder / file).write_bytes(content[name])
    # Through JSON, for YAML writes tuples with a tag.
    plain = json.loads(json.dumps(asdict(manifest)))
    draft = folder / DRAFT
    draft.write_text(
        yaml.safe_dump(plain, sort_keys=False, width=100, allow_unicode=True), encoding="utf-8"
    )
    draft.replace(folder / traces.MANIFEST_FILE)
    for path, _ in list(_tables_in(folder)):
        if path.name not in named.values():
            path.unlink(missing_ok=True)


def _tables_in(folder: Path) -> Iterator[tuple[Path, int]]:
    """Files of tables in *folder* and the number of each, 0 where it has none."""
    for path in folder.glob("*.parquet"):
        form = TABLE_FILE.fullmatch(path.name)
        if form is not None and form["table"] in SCHEMAS:
            yield path, int(re.sub(r"\D", "", path.name) or 0)
