"""Reading of captured traces: nothing comes back that does not add up."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import ValidationError

import traces
from traces.captured import CapturedManifest, TableFile
from traces.captured_trace import CapturedTrace
from traces.record_form import M, RecordForm, T
from traces.records import form_of, records
from traces.rules import contradictions
from traces.table_schema import column_mistakes
from traces.trace_error import TraceError, TraceMistake

# A manifest is a few kilobytes.
MOST_MANIFEST_BYTES = 1_000_000


def read_trace(folder: Path) -> CapturedTrace:
    """The trace in *folder*, of the kind that it says; raises TraceError with every mistake."""
    value = _value(folder / traces.MANIFEST_FILE)
    form = form_of(folder, value)
    return _with_tables(form, folder, _manifest(form, folder, value))


def read_as(form: RecordForm[M, T], folder: Path) -> T:
    """The trace in *folder*, which must be of that *form*; raises TraceError as above."""
    value = _value(folder / traces.MANIFEST_FILE)
    return _with_tables(form, folder, _manifest(form, folder, value))


def trace_of(manifest: CapturedManifest, folder: Path) -> CapturedTrace:
    """The trace of a *manifest* whose tables are in *folder*; raises TraceError as above."""
    form: RecordForm[CapturedManifest, CapturedTrace] = records(manifest.records).FORM
    return _with_tables(form, folder, manifest)


def _with_tables(form: RecordForm[M, T], folder: Path, manifest: M) -> T:
    made: dict[str, pa.Table] = {}
    mistakes: list[TraceMistake] = []
    for name, schema in form.schemas.items():
        entry = manifest.tables[name]
        try:
            table = _table(folder / entry.file, entry)
        except TraceError as error:
            mistakes += error.mistakes
            continue
        wrong = [TraceMistake(entry.file, *told) for told in column_mistakes(table, schema)]
        mistakes += wrong
        if not wrong:
            made[name] = table.select(schema.names).combine_chunks()
    if not mistakes:
        mistakes += contradictions(form, manifest, made)
    if mistakes:
        raise TraceError(folder, mistakes)
    return form.trace(manifest, **made)


def _value(path: Path) -> object:
    """What the manifest at *path* holds, unchecked; raises TraceError where it is no YAML."""
    if path.is_fifo():
        raise _wrong(path, "is a pipe, and no file")
    try:
        with path.open("rb") as file:
            content = file.read(MOST_MANIFEST_BYTES + 1)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    if len(content) > MOST_MANIFEST_BYTES:
        raise _wrong(path, f"is {MOST_MANIFEST_BYTES} bytes at most, got {len(content)}")
    try:
        return yaml.safe_load(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _wrong(path, "is not UTF-8 text") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        rule = f"is not readable as YAML: {' '.join(str(error).split())}"
        raise _wrong(path, rule) from error


def _manifest(form: RecordForm[M, T], folder: Path, value: object) -> M:
    """*value* as a manifest of that *form*; raises TraceError with every mistake in it."""
    try:
        return form.adapter.validate_python(value)
    except ValidationError as error:
        told = [TraceMistake(traces.MANIFEST_FILE, *mistake) for mistake in _told(error)]
    raise TraceError(folder, told)


def _told(error: ValidationError) -> Iterator[tuple[str, str]]:
    """(dotted field, rule) of every mistake in a manifest."""
    for item in error.errors():
        yield ".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, ")


def _table(path: Path, entry: TableFile) -> pa.Table:
    """The table at *path* if its bytes are those that the manifest means; raises TraceError."""
    # A pipe would be waited for.
    if path.is_fifo():
        raise _wrong(path, "is a pipe, and no file")
    try:
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != entry.sha256:
            raise _wrong(path, f"has the SHA-256 {entry.sha256} by the manifest, got {found}")
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        table.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _wrong(path, f"is no readable Parquet table: {error}") from error
    except OSError as error:
        # Arrow raises it as well, without a number, for bytes that it cannot make sense of.
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from error
    if table.num_rows != entry.rows:
        raise _wrong(path, f"has {entry.rows} rows by the manifest, got {table.num_rows}")
    return table


def _wrong(path: Path, rule: str) -> TraceError:
    return TraceError(path.parent, [TraceMistake(path.name, "", rule)])
