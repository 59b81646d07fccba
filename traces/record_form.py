"""RecordForm: what makes one kind of captured trace, for all that is done to every kind alike."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Generic, TypeVar, get_type_hints

import pyarrow as pa
from pydantic import TypeAdapter

from traces.captured import CapturedManifest
from traces.captured_trace import CapturedTrace
from traces.checked_table import CheckedTable
from traces.columns import IntArray
from traces.trace_error import TraceMistake

Mistakes = Iterator[TraceMistake]
Tables = Mapping[str, CheckedTable]
"""Tables whose columns are right, by name."""
Owners = Mapping[str, IntArray]
"""Of each table but `requests`, the row of requests that each of its rows belongs to, or -1."""

M = TypeVar("M", bound=CapturedManifest)
T = TypeVar("T", bound=CapturedTrace)


@dataclass(frozen=True)
class RecordForm(Generic[M, T]):
    """A manifest of the type M and tables by `schemas` make a trace of the type T."""

    manifest: type[M]
    trace: type[T]
    """Made of a manifest, and tables by their names."""
    schemas: Mapping[str, pa.Schema]
    counted: Mapping[str, tuple[str, ...]]
    """Columns by table that are counts or numbers and have no narrower rule."""
    forwards: Mapping[str, tuple[str, ...]]
    """Columns of `requests`, and the kinds of steps that each counts."""
    mistakes: Callable[[M, Tables, Owners], Mistakes]
    """The rules that this kind has beyond those of all."""

    @cached_property
    def adapter(self) -> TypeAdapter[M]:
        """Checks the value of a manifest; raises pydantic's ValidationError (a ValueError)."""
        return TypeAdapter(self.manifest)

    @cached_property
    def counts(self) -> tuple[str, ...]:
        """Names of the totals in its manifest; one that `requests` has as a column is its sum."""
        return tuple(field.name for field in fields(get_type_hints(self.manifest)["counts"]))
