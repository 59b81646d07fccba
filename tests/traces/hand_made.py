"""Captured traces made by hand: fields and rows, changed at will, put into a folder unchecked."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Rows = list[dict[str, Any]]


def parquet(table: pa.Table) -> bytes:
    """A table as a file's bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def row(names: str, *values: Any) -> dict[str, Any]:
    """A row of the columns *names*, which spaces are between."""
    return dict(zip(names.split(), values, strict=True))


@dataclass(frozen=True)
class HandMade:
    """A trace's fields but its tables, and the rows of these."""

    manifest: Mapping[str, Any]
    rows: Mapping[str, Rows]
    schemas: Mapping[str, pa.Schema]

    def fields(self, **changes: Any) -> dict[str, Any]:
        """The manifest's fields with some changed; `counts__requests` is counts.requests."""
        made = {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in self.manifest.items()
        }
        for path, value in changes.items():
            *parents, last = path.split("__")
            holder = made
            for parent in parents:
                holder = holder[parent]
            holder[last] = value
        return made

    def table_of(self, name: str, rows: Rows) -> pa.Table:
        """Rows as the table of *name*, in the order given."""
        return pa.Table.from_pylist(rows, schema=self.schemas[name])

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """All tables."""
        return {name: self.table_of(name, rows) for name, rows in self.rows.items()}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The bytes of their files."""
        return {name: parquet(table) for name, table in self.tables.items()}

    def changed(self, name: str, at: int, cells: Mapping[str, Any]) -> bytes:
        """The table of *name* with cells of the row *at* changed, as a file."""
        rows = [dict(each) for each in self.rows[name]]
        rows[at] |= cells
        return parquet(self.table_of(name, rows))

    def put(
        self, folder: Path, content: Mapping[str, bytes] = MappingProxyType({}), **changes: object
    ) -> Path:
        """The trace as it stands, unchecked, in *folder*; some tables' bytes, fields replaced."""
        folder.mkdir(exist_ok=True)
        files = self.files | dict(content)
        listed = {
            name: {
                "file": f"{name}.parquet",
                "rows": len(self.rows[name]),
                "sha256": hashlib.sha256(file).hexdigest(),
            }
            for name, file in files.items()
        }
        for name, file in files.items():
            (folder / f"{name}.parquet").write_bytes(file)
        always = {"format_version": 1, "kind": "captured", "tables": listed}
        (folder / "manifest.yaml").write_text(yaml.safe_dump(always | self.fields(**changes)))
        return folder
