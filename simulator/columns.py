"""Columns: a sequence of records kept as arrays, a few dozen bytes a record."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Record = TypeVar("Record")
Array = npt.NDArray[Any]

CHUNK_ROWS = 2048
NARROW = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64)
TYPES = {"int": np.int64, "float": np.float64, "bool": np.bool_, "str": np.object_}


class Columns(Sequence[Record], Generic[Record]):
    """Grows at its end; reads as a sequence of *kind*, or one column at a time.

    *kind* is a dataclass or named tuple whose fields, of which there are several, are int, float,
    bool or str. Whole numbers lie in as few bytes as those of their chunk need.
    """

    def __init__(self, kind: type[Record], records: Sequence[Record] = ()) -> None:
        """Start with *records*."""
        self._kind = kind
        self.types: dict[str, type[Any]] = {
            name: _array_type(annotation) for name, annotation in kind.__annotations__.items()
        }
        """Numpy's type of each column."""
        self._chunks: list[dict[str, Array]] = []
        self._ends: list[int] = []
        self._pending: list[Record] = []
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Take one more."""
        self._pending.append(record)
        if len(self._pending) == CHUNK_ROWS:
            self._pack()

    def extend(self, columns: Mapping[str, Array]) -> None:
        """Take as many more as the arrays are long, one for every field."""
        self._pack()
        kept = {name: _narrow(columns[name].astype(kind)) for name, kind in self.types.items()}
        self._keep(kept, len(next(iter(kept.values()))))

    def column(self, name: str) -> Array:
        """All values of a field, [records]."""
        found = np.empty(len(self), dtype=self.types[name])
        begin = 0
        for chunk in self.chunks():
            end = begin + len(chunk[name])
            found[begin:end] = chunk[name]
            begin = end
        return found

    def chunks(self) -> Iterator[dict[str, Array]]:
        """The columns piece by piece, in order."""
        self._pack()
        yield from self._chunks

    def _pack(self) -> None:
        if not self._pending:
            return
        values = zip(*map(attrgetter(*self.types), self._pending), strict=True)
        packed = {
            name: _narrow(np.array(column, dtype=kind))
            for (name, kind), column in zip(self.types.items(), values, strict=True)
        }
        rows = len(self._pending)
        self._pending.clear()
        self._keep(packed, rows)

    def _keep(self, chunk: dict[str, Array], rows: int) -> None:
        if rows:
            self._ends.append(rows + (self._ends[-1] if self._ends else 0))
            self._chunks.append(chunk)

    def _at(self, index: int) -> Record:
        self._pack()
        place = bisect_right(self._ends, index)
        row = index - (self._ends[place - 1] if place else 0)
        chunk = self._chunks[place]
        return self._kind(**{name: chunk[name][row : row + 1].tolist()[0] for name in self.types})

    def __len__(self) -> int:
        """Records so far."""
        return (self._ends[-1] if self._ends else 0) + len(self._pending)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        """One record, or a list of them; raises IndexError beyond the ends."""
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            message = f"index {index} of {len(self)} records"
            raise IndexError(message)
        return self._at(index % len(self))

    def __iter__(self) -> Iterator[Record]:
        """The records in order."""
        for chunk in self.chunks():
            for values in zip(*(chunk[name].tolist() for name in self.types), strict=True):
                yield self._kind(*values)

    def __eq__(self, other: object) -> bool:
        """Whether the records are the same, in the same order."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """How many of what."""
        return f"<{len(self)} of {self._kind.__name__}>"


def _array_type(annotation: object) -> type[Any]:
    """The type of a column; raises KeyError for a field that cannot be one."""
    return TYPES[annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")]


def _narrow(values: Array) -> Array:
    """Whole numbers in the fewest bytes that hold all of *values*; others as they are."""
    if values.dtype != np.int64 or not len(values):
        return values
    lowest, highest = int(values.min()), int(values.max())
    kind = next(k for k in NARROW if np.iinfo(k).min <= lowest and highest <= np.iinfo(k).max)
    return values.astype(kind)
