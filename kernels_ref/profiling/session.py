"""A measuring session: the grid in order of importance, until the budget is spent."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

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
SKELETON = 25
SKELETON_LEVEL = -2.0
"""Behind the streams and before everything else."""
ROUND_POINTS = 400
"""Visits of a point lie this many others apart: neighbours on a shared machine come and go."""
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
MOST_REFUSED = 10
CALLS_OF_A_POINT = 6
"""Least that it takes: to size the blocks, and the samples themselves."""
COSTLY = 0.5
"""A point that takes this share of the clock's longest repeats waits until the others are done."""

Progress = Callable[[float, str], None]
"""Called with the share of the budget that is spent and what is measured."""
Calls = Callable[[Point, Pool], Sequence[Call]]
"""What runs a point once per copy of its operands."""


class RefusedError(ValueError):
    """The device or its library refuses one kernel after the other."""


@dataclass(frozen=True)
class Outcome:
    """What a session did."""

    measured: int
    skipped: int
    """Too large for the memory that was allowed, or refused by the library."""
    left: int
    """Points of the grid that the budget did not reach."""


def grid(served: Served) -> list[Point]:
    """Every point to measure, the most important first.

    Behind the streams come the first SKELETON points of every kernel and data type, enough for a
    curve; then, level by level, all kernels together, a tenth of their points at a time and one
    data type after the other. Within a level the order is one that chance would give: wherever a
    budget ends, no kernel and no shape was forgotten.
    """
    found = {point.key: point for family in families().values() for point in family.points(served)}
    by_chance = sorted(found.values(), key=lambda point: zlib.crc32(point.key.encode()))
    by_kernel: dict[tuple[str, str], list[Point]] = {}
    for point in sorted(by_chance, key=lambda point: point.level):
        by_kernel.setdefault((point.kernel, point.precision), []).append(point)
    placed = [entry for points in by_kernel.values() for entry in _placed(points)]
    return [point for _, point in sorted(placed, key=lambda entry: entry[0])]


def _placed(points: Sequence[Point]) -> Iterator[tuple[tuple[float, int, str, str, int], Point]]:
    """The points of one kernel and data type, sorted by level, each with its place among all."""
    rank = 0
    for level, group in groupby(points, key=lambda point: point.level):
        same = list(group)
        for place, point in enumerate(same):
            early = min(float(level), SKELETON_LEVEL) if rank < SKELETON else float(level)
            portion = PORTIONS * place // len(same)
            yield (early, portion, point.precision, point.kernel, rank), point
            rank += 1


def run(  # noqa: PLR0913 (what a session needs)
    points: Iterable[Point],
    samples: Samples,
    *,
    pool: Pool,
    clock: Clock,
    budget_s: float,
    visits: int = 1,
    progress: Progress = lambda _share, _what: None,
    calls: Mapping[str, Calls] | None = None,
) -> Outcome:
    """Measure *points* into *samples*, *visits* times each, until *budget_s* is spent.

    Those that were visited as often are left out. Of several visits the fastest counts: what else
    a machine does only ever adds time.

    *calls* make the calls of a point by its kernel; those of `families` when None. A point that
    does not fit in memory is kept as such and the session goes on. The file is saved
    every other second and at the end, an interrupt included.
    """
    wanted = [point for point in points if samples.visits(point) < visits]
    session = _Session(samples, pool, clock, budget_s, progress, calls or _family_calls())
    waiting: list[Point] = []
    try:
        for start in range(0, len(wanted), ROUND_POINTS):
            due = wanted[start : start + ROUND_POINTS]
            for _ in range(visits):
                taken = {point.key: session.take(point) for point in due}
                waiting += [point for point in due if not taken[point.key]]
                due = [
                    point for point in due if taken[point.key] and samples.visits(point) < visits
                ]
        for point in waiting:
            for _ in range(visits):
                if samples.visits(point) < visits:
                    session.take(point, whatever_it_costs=True)
    finally:
        session.close()
    left = sum(not samples.visits(point) for point in wanted)
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
    refused: int = 0
    """One after the other, up to now."""
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
            self._refused(point, error)
        else:
            self.refused = 0
            self.measured += not self.samples.visits(point)
            self.samples.add(point, seconds)
            self._learn(point, float(np.median(seconds)))

    def _refused(self, point: Point, error: RuntimeError) -> None:
        """A library may refuse a size or a type; a device that refuses everything is broken.

        Raises RefusedError at the last of MOST_REFUSED in a row.
        """
        # The CPU allocator has no class of error for it.
        if any(words in str(error) for words in OUT_OF_MEMORY):
            self._skip(point, "out of memory")
            return
        self.refused += 1
        if self.refused >= MOST_REFUSED:
            rule = f"{MOST_REFUSED} kernels in a row were refused, the last {point.key}: {error}"
            raise RefusedError(rule) from error
        self._skip(point, f"refused: {str(error).strip().splitlines()[0]}")

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
