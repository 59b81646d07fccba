"""A measuring session: the grid in order of importance, until the budget is spent."""

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels_ref.profiling.clock import Call, Clock
from kernels_ref.profiling.families import families
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.pool import DoesNotFitError, Pool
from kernels_ref.profiling.samples import Samples
from kernels_ref.profiling.served import Served

SAVE_EVERY_S = 2.0
PORTIONS = 10
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
CALLS_OF_A_POINT = 6
"""Least that it takes: to size the blocks, and the samples themselves."""
COSTLY = 0.25
"""A point that takes this share of the clock's longest repeats waits until the others are done."""

Progress = Callable[[float, str], None]
"""Called with the share of the budget that is spent and what is measured."""
Calls = Callable[[Point, Pool], Sequence[Call]]
"""What runs a point once per copy of its operands."""


@dataclass(frozen=True)
class Outcome:
    """What a session did."""

    measured: int
    skipped: int
    """Too large for the memory that was allowed."""
    left: int
    """Points of the grid that the budget did not reach."""


def grid(served: Served) -> list[Point]:
    """Every point to measure, the most important first.

    Within a level all kernels advance together, a tenth of their points at a time and one data type
    after the other, in an order that chance would give: wherever a budget ends, no kernel and no
    shape was forgotten.
    """
    found = {point.key: point for family in families().values() for point in family.points(served)}
    by_level: dict[tuple[int, str, str], list[Point]] = {}
    for key in sorted(found, key=lambda key: zlib.crc32(key.encode())):
        point = found[key]
        by_level.setdefault((point.level, point.kernel, point.precision), []).append(point)
    placed = [
        (level, PORTIONS * place // len(points), precision, kernel, place, point)
        for (level, kernel, precision), points in by_level.items()
        for place, point in enumerate(points)
    ]
    return [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:-1])]


def run(  # noqa: PLR0913 (what a session needs)
    points: Iterable[Point],
    samples: Samples,
    *,
    pool: Pool,
    clock: Clock,
    budget_s: float,
    progress: Progress = lambda _share, _what: None,
    calls: Mapping[str, Calls] | None = None,
) -> Outcome:
    """Measure *points* into *samples*, those already there left out, until *budget_s* is spent.

    *calls* make the calls of a point by its kernel; those of `families` when None. A point that
    does not fit in memory is kept as such and the session goes on. The file is saved
    every other second and at the end, an interrupt included.
    """
    wanted = [point for point in points if point.key not in samples.rows]
    session = _Session(samples, pool, clock, budget_s, progress, calls or _family_calls())
    try:
        waiting = [point for point in wanted if not session.take(point)]
        for point in waiting:
            session.take(point, whatever_it_costs=True)
    finally:
        session.close()
    left = len(wanted) - session.measured - session.skipped
    return Outcome(session.measured, session.skipped, left)


def _family_calls() -> dict[str, Calls]:
    return {kernel: family.calls for family in families().values() for kernel in family.KERNELS}


@dataclass
class _Session:
    """The state of a run: what is spent, and the fastest rates seen, which bound what follows."""

    samples: Samples
    pool: Pool
    clock: Clock
    budget_s: float
    progress: Progress
    calls: Mapping[str, Calls]
    measured: int = 0
    skipped: int = 0
    bytes_per_s: float = 0.0
    flop_per_s: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    def take(self, point: Point, *, whatever_it_costs: bool = False) -> bool:
        """Measure *point* if there is time; False where it is to wait for the others."""
        left_s = self.budget_s - (time.monotonic() - self.started)
        least_s = self._least_s(point)
        if left_s <= 0 or least_s * CALLS_OF_A_POINT > left_s:
            return False
        if least_s > COSTLY * self.clock.most_s and not whatever_it_costs:
            return False
        self.progress(1 - left_s / self.budget_s, f"{point.precision} {point.kernel}")
        self._measure(point)
        if time.monotonic() - self.saved > SAVE_EVERY_S:
            self.samples.save()
            self.saved = time.monotonic()
        return True

    def close(self) -> None:
        """Keep what there is, also after an interrupt."""
        if self.measured or self.skipped:
            self.samples.save()
        self.pool.release()

    def _measure(self, point: Point) -> None:
        """Keep the samples of *point*, or why it could not be measured."""
        try:
            seconds = self.clock.seconds(self.calls[point.kernel](point, self.pool))
        except DoesNotFitError as error:
            self._skip(point, str(error))
        except torch.OutOfMemoryError:
            self._skip(point, "out of memory")
        except RuntimeError as error:
            # The CPU allocator has no class of error for it.
            if not any(words in str(error) for words in OUT_OF_MEMORY):
                raise
            self._skip(point, "out of memory")
        else:
            self.samples.add(point, seconds)
            self.measured += 1
            self._learn(point, float(np.median(seconds)))

    def _skip(self, point: Point, why: str) -> None:
        self.samples.add(point, np.empty(0), f"skipped: {why}")
        self.skipped += 1
        self.pool.release()

    def _learn(self, point: Point, seconds: float) -> None:
        fastest = self.flop_per_s.get(point.precision, 0.0)
        self.flop_per_s[point.precision] = max(fastest, point.flop / seconds)
        self.bytes_per_s = max(self.bytes_per_s, point.bytes / seconds)

    def _least_s(self, point: Point) -> float:
        """What a call takes at least, by the fastest rates so far; zero where nothing is known."""
        rate = self.flop_per_s.get(point.precision, 0.0)
        compute_s = point.flop / rate if rate else 0.0
        memory_s = point.bytes / self.bytes_per_s if self.bytes_per_s else 0.0
        return max(compute_s, memory_s)
