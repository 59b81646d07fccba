"""Writing of captured traces: a reader sees the trace before or the one after, never a part."""

import hashlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import traces
from traces.captured import TABLE_FILE, CapturedManifest
from traces.record_form import M, RecordForm, T
from traces.records import form_of
from traces.rules import contradictions
from traces.table_schema import in_schema
from traces.trace_error import TraceError, TraceMistake

ALWAYS: Final = {"format_version": 1, "kind": "captured"}
DRAFT = f".{traces.MANIFEST_FILE}.draft"


def write_trace(
    folder: Path, manifest_fields: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> CapturedManifest:
    """Put a trace into *folder*, made where it is missing, and say what its manifest says.

    *manifest_fields* are those of the manifest of its kind, which `records` names, but `tables`;
    *tables* hold the columns of the kind's schemas in any order of rows. A snapshot (partial) goes
    into files with a number of its own, and then the manifest is replaced at once, so a kill leaves
    the trace before or this one. A complete trace has files without numbers. The same input leaves
    the same bytes.

    Raises TraceError for tables that contradict the manifest or one another, pydantic's
    ValidationError (a ValueError) for wrong fields, and OSError.
    """
    form = form_of(folder, manifest_fields)
    ordered = _ordered(form.schemas, folder, tables)
    content = {name: _parquet(table) for name, table in ordered.items()}
    plain = _manifest(form, manifest_fields, ordered, content, number=None)
    if mistakes := list(contradictions(form, plain, ordered)):
        raise TraceError(folder, mistakes)
    folder.mkdir(parents=True, exist_ok=True)
    # Files that the manifest of a trace before may name are not written over.
    in_use = any((folder / table.file).exists() for table in plain.tables.values())
    if plain.partial or in_use:
        number = 1 + max((own for _, own in _tables_in(folder, ordered)), default=0)
        numbered = _manifest(form, manifest_fields, ordered, content, number=number)
        _put(folder, numbered, content)
        if plain.partial:
            return numbered
    _put(folder, plain, content)
    return plain


def _ordered(
    schemas: Mapping[str, pa.Schema], folder: Path, tables: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    if set(tables) != set(schemas):
        rule = f"tables are {', '.join(schemas)}, got {', '.join(tables) or 'none'}"
        raise TraceError(folder, [TraceMistake(traces.MANIFEST_FILE, "tables", rule)])
    made, mistakes = {}, []
    for name, schema in schemas.items():
        try:
            made[name] = in_schema(name, tables[name], schema)
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
    form: RecordForm[M, T],
    fields: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    content: Mapping[str, bytes],
    *,
    number: int | None,
) -> M:
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
    return form.adapter.validate_python({**ALWAYS, **fields, "tables": files})


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
    for path, _ in list(_tables_in(folder, named)):
        if path.name not in named.values():
            path.unlink(missing_ok=True)


def _tables_in(folder: Path, names: Container[str]) -> Iterator[tuple[Path, int]]:
    """Files of the tables of these *names* in *folder*, and the number of each, 0 without one."""
    for path in folder.glob("*.parquet"):
        form = TABLE_FILE.fullmatch(path.name)
        if form is not None and form["table"] in names:
            yield path, int(re.sub(r"\D", "", path.name) or 0)
