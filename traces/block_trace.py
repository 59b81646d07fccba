"""BlockTrace: a captured trace of blocks, read and checked."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import ValidationError

import traces
from traces.block_rules import contradictions
from traces.block_tables import SCHEMAS, column_mistakes
from traces.captured import CAPTURED, CapturedManifest, TableFile
from traces.trace_error import TraceError, TraceMistake

# A manifest is a few kilobytes.
MOST_MANIFEST_BYTES = 1_000_000


@dataclass(frozen=True, eq=False)
class BlockTrace:
    """What a trace says of itself, and its tables as `block_tables.SCHEMAS` has them.

    Rows are in the order of requests, and within one of blocks or steps; `block_tables` has the
    functions that make arrays of columns.
    """

    manifest: CapturedManifest
    requests: pa.Table
    blocks: pa.Table
    steps: pa.Table

    def table(self, name: str) -> pa.Table:
        """The table called *name*."""
        return {"requests": self.requests, "blocks": self.blocks, "steps": self.steps}[name]


def read_block_trace(folder: Path) -> BlockTrace:
    """The trace in *folder*; raises TraceError with every mistake found in it."""
    return block_trace(folder, _manifest(folder / traces.MANIFEST_FILE))


def block_trace(folder: Path, manifest: CapturedManifest) -> BlockTrace:
    """The trace of *manifest*, whose tables are in *folder*; raises TraceError as above."""
    made: dict[str, pa.Table] = {}
    mistakes: list[TraceMistake] = []
    for name in SCHEMAS:
        entry = manifest.tables[name]
        try:
            table = _table(folder / entry.file, entry)
        except TraceError as error:
            mistakes += error.mistakes
            continue
        wrong = [TraceMistake(entry.file, *told) for told in column_mistakes(name, table)]
        mistakes += wrong
        if not wrong:
            made[name] = table.select(SCHEMAS[name].names).combine_chunks()
    if not mistakes:
        mistakes += contradictions(manifest, made)
    if mistakes:
        raise TraceError(folder, mistakes)
    return BlockTrace(manifest, **made)


def _manifest(path: Path) -> CapturedManifest:
    """The manifest at *path*; raises TraceError with every mistake in it."""
    try:
        content = path.read_bytes()
        if len(content) > MOST_MANIFEST_BYTES:
            rule = f"is {MOST_MANIFEST_BYTES} bytes at most, got {len(content)}"
            raise TraceError(path.parent, [TraceMistake(path.name, "", rule)])
        value = yaml.safe_load(content.decode("utf-8"))
        return CAPTURED.validate_python(value)
    except OSError as error:
        told = [("", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError:
        told = [("", "is not UTF-8 text")]
    except ValidationError as error:
        told = list(_told(error))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = [("", f"is not readable as YAML: {' '.join(str(error).split())}")]
    raise TraceError(path.parent, [TraceMistake(path.name, *mistake) for mistake in told])


def _told(error: ValidationError) -> Iterator[tuple[str, str]]:
    """(dotted field, rule) of every mistake in a manifest."""
    for item in error.errors():
        yield ".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, ")


def _table(path: Path, entry: TableFile) -> pa.Table:
    """The table at *path* if its bytes are those that the manifest means; raises TraceError."""
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
