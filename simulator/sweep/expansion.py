"""Expansion: the points of a grid, a list and a sample, each made when it is asked for.

Their product is never held: a point follows from its number. `points` turn slowest, then the grid,
whose last field turns fastest, then the sample, then the seeds.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from simulator.documents import shown
from simulator.scenario import with_settings
from simulator.scenario_fields import leaves
from simulator.sweep.design import MOST_POINTS, NAME, SEED, SweepFile
from simulator.sweep.table import Row

IntArray = npt.NDArray[np.int64]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """One row of the table: what is set in the base scenario."""

    index: int
    """Its row, from 0."""
    name: str
    """Of its entry of `points`; empty without."""
    settings: Settings
    """Dotted field or whole section, and value; the seed included."""

    @property
    def ordered(self) -> dict[str, Any]:
        """The settings in the order to put them in place: a whole section before fields of it."""
        return dict(sorted(self.settings.items(), key=lambda item: item[0].count(".")))

    def document(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Its scenario."""
        return with_settings(base, self.ordered)

    @property
    def words(self) -> str:
        """Its settings in a message."""
        told = (f"{field} {_value(value)}" for field, value in leaves(self.settings))
        return ", ".join(filter(None, [self.name, *told]))


class PointSource(Protocol):
    """Where the points of a sweep come from."""

    def __len__(self) -> int:
        """Points that there can be."""

    def batches(self) -> Generator[Sequence[Point], Sequence[Row], None]:
        """The next points, again and again; is sent their rows, in their order."""


@dataclass(frozen=True)
class Product:
    """Every combination of one settings of each of the *axes*, the last of which turns fastest."""

    axes: tuple[Sequence[Settings], ...]

    def __len__(self) -> int:
        """How many."""
        return prod(len(axis) for axis in self.axes)

    def point(self, number: int, index: int) -> Point:
        """The combination of that *number*, as row *index* of the table."""
        chosen: list[Settings] = []
        for axis in reversed(self.axes):
            number, digit = divmod(number, len(axis))
            chosen.append(axis[digit])
        settings = {field: value for part in reversed(chosen) for field, value in part.items()}
        return Point(index, settings.pop(NAME, ""), settings)


@dataclass(frozen=True)
class Expansion(Sequence[Point]):
    """The points of a product that keep every constraint."""

    product: Product
    kept: IntArray
    """Their numbers, in order."""

    def batches(self) -> Generator[Sequence[Point], Sequence[Row], None]:
        """All points at once."""
        yield self

    def __len__(self) -> int:
        """Points in all."""
        return len(self.kept)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        """One point, or a list of them; raises IndexError beyond the ends."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        return self.product.point(int(self.kept[row]), row)


def check_size(sweep: SweepFile) -> None:
    """Raise ValueError, with the size and how it comes about, for too many points."""
    sizes = {"points": len(sweep.points)} | {f: len(values) for f, values in sweep.grid.items()}
    sizes |= {"sample": sweep.sample.n if sweep.sample else 1}
    sizes |= {"search": sweep.search.trials if sweep.search else 1, "repeat": sweep.repeats}
    size = prod(max(1, each) for each in sizes.values())
    if size > MOST_POINTS:
        parts = " x ".join(f"{each:,} ({name})" for name, each in sizes.items() if each > 1)
        message = f"{size:,} points, which are {parts}; a sweep has at most {MOST_POINTS:,}"
        raise ValueError(message)


def product_of(sweep: SweepFile, seeds: Sequence[int], drawn: Sequence[Settings]) -> Product:
    """The product that a *sweep* is; *drawn* are the settings of its sample."""
    grid = [[{field: value} for value in values] for field, values in sweep.grid.items()]
    axes: list[Sequence[Settings]] = [sweep.points, *grid, drawn, [{SEED: seed} for seed in seeds]]
    return Product(tuple(axis for axis in axes if axis))


def _value(value: object) -> str:
    return value if isinstance(value, str) else shown(value)
