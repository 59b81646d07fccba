"""A session: within its budget, through what does not fit, and never losing what it has."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from hwprofiles.quantities import FloatArray
from kernels_ref.profiling.clock import Call, Clock
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.pool import DoesNotFitError, Pool
from kernels_ref.profiling.samples import Samples
from kernels_ref.profiling.session import Calls, Outcome, RefusedError, run

HERE = {"device": "a chip"}
POOL = Pool(torch.device("cpu"), working_set_bytes=1e3, most_bytes=1e6)


def points(count: int, flop: float = 0.0, kernel: str = "gemm") -> list[Point]:
    """Points that differ in one size."""
    return [Point(kernel, "bf16", {"m": m + 1.0}, 0, flop, 0.0) for m in range(count)]


@dataclass(frozen=True)
class FakeClock(Clock):
    """A clock for which each point takes *each_s*, by a wall clock that it moves itself."""

    each_s: float = 1.0
    waited: list[float] = field(default_factory=lambda: [0.0])
    """How far the wall clock is moved on."""

    def seconds(self, calls: Sequence[Call]) -> FloatArray:
        """Run the first call once; what it gives back is its time."""
        took_s = calls[0]()
        self.waited[0] += self.each_s
        return np.full(5, took_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The fake clock, with the wall clock moved on by it."""
    real, made = time.monotonic, FakeClock(torch.device("cpu"), threads=1)
    monkeypatch.setattr(time, "monotonic", lambda: real() + made.waited[0])
    return made


def session(
    wanted: list[Point],
    samples: Samples,
    clock: FakeClock,
    budget_s: float,
    calls: Mapping[str, Calls],
) -> Outcome:
    """A session that begins now."""
    # Where a session began is told by the wall clock as it was before a test moved it.
    clock.waited[0] = 0.0
    return run(wanted, samples, pool=POOL, clock=clock, budget_s=budget_s, calls=calls)


def timed(seconds: Mapping[float, float] | float = 1e-3) -> Mapping[str, Calls]:
    """Calls of every gemm point that give back their seconds, by m where a mapping is given."""

    def calls(point: Point, _pool: Pool) -> list[Call]:
        found = seconds if isinstance(seconds, float) else seconds[point.sizes["m"]]
        return [lambda: found]

    return {"gemm": calls}


def raising(at: float, error: BaseException) -> Mapping[str, Calls]:
    """Calls that raise *error* at the point whose m is *at*."""

    def calls(point: Point, _pool: Pool) -> list[Call]:
        if point.sizes["m"] == at:
            raise error
        return [lambda: 1e-3]

    return {"gemm": calls}


def new(folder: Path) -> Samples:
    """Samples of a file that is not there yet."""
    return Samples.open(folder / "a.parquet", HERE)


def sizes(samples: Samples) -> list[float]:
    """Which points were taken, in the order they were."""
    return [row["m"] for row in samples.rows.values()]


def test_the_budget_is_kept(tmp_path: Path, clock: FakeClock) -> None:
    """Seconds-long points in ten seconds: ten of them, and the rest are left."""
    samples = new(tmp_path)
    outcome = session(points(30), samples, clock, 9.9, timed())
    assert outcome == Outcome(measured=10, skipped=0, left=20)
    assert sizes(samples) == list(range(1, 11))
    assert sizes(new(tmp_path)) == sizes(samples)


def test_a_session_goes_on_where_the_last_one_ended(tmp_path: Path, clock: FakeClock) -> None:
    """Points that are there stay as they were, and the next ones are taken."""
    session(points(10), new(tmp_path), clock, 3.9, timed(1e-3))
    again = new(tmp_path)
    outcome = session(points(10), again, clock, 3.9, timed(2e-3))
    assert outcome == Outcome(measured=4, skipped=0, left=2)
    taken = [row["seconds"] for row in again.rows.values()]
    assert taken == [1e-3] * 4 + [2e-3] * 4


def test_nothing_to_do_writes_nothing(tmp_path: Path, clock: FakeClock) -> None:
    """A budget that is spent before the first point leaves no file."""
    outcome = session(points(3), new(tmp_path), clock, 1e-9, timed())
    assert outcome == Outcome(measured=0, skipped=0, left=3)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told(tmp_path: Path, clock: FakeClock) -> None:
    """The share of the budget before each point, rising from nothing, and what comes next."""
    told: list[tuple[float, str]] = []
    run(
        points(4),
        new(tmp_path),
        pool=POOL,
        clock=clock,
        budget_s=10.0,
        progress=lambda share, what: told.append((share, what)),
        calls=timed(),
    )
    assert [share for share, _ in told] == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=0.02)
    assert {what for _, what in told} == {"bf16 gemm"}


OUT_OF_MEMORY = [
    DoesNotFitError("needs 2.00 GB, allowed 1.00 GB"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_what_does_not_fit_is_noted_and_the_rest_measured(
    tmp_path: Path, clock: FakeClock, error: Exception
) -> None:
    """The point has a status that says so and no time, and is not tried again."""
    samples = new(tmp_path)
    calls = raising(2.0, error)
    outcome = session(points(4), samples, clock, 99.0, calls)
    assert outcome == Outcome(measured=3, skipped=1, left=0)
    again = new(tmp_path)
    statuses = {row["m"]: row["status"] for row in again.rows.values()}
    assert statuses.pop(2.0).startswith("skipped: ")
    assert set(statuses.values()) == {"measured"}
    assert again.table()["seconds"].isna().tolist() == [False, True, False, False]
    assert session(points(4), again, clock, 9.0, calls).left == 0


def test_a_refused_size_is_noted_and_a_broken_device_stops(
    tmp_path: Path, clock: FakeClock
) -> None:
    """A library that has no kernel for a size is written down; ten in a row are an error."""
    samples = new(tmp_path)
    no_kernel = RuntimeError("No available kernel. Aborting execution.\nmore")
    outcome = session(points(4), samples, clock, 99.0, raising(2.0, no_kernel))
    assert outcome == Outcome(measured=3, skipped=1, left=0)
    (status,) = {row["status"] for row in samples.rows.values()} - {"measured"}
    assert status == "skipped: refused: No available kernel. Aborting execution."

    def broken(_point: Point, _pool: Pool) -> list[Call]:
        raise no_kernel

    with pytest.raises(RefusedError, match="No available kernel"):
        session(points(40)[4:], samples, clock, 99.0, {"gemm": broken})
    assert len(samples.rows) == 4 + 9


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_other_errors_stop_the_session_and_lose_nothing(
    tmp_path: Path, clock: FakeClock, error: BaseException
) -> None:
    """A fault of a kernel or an interrupt is raised as it is; what was measured is in the file."""
    with pytest.raises(type(error)) as caught:
        session(points(9), new(tmp_path), clock, 99.0, raising(4.0, error))
    assert caught.value is error
    assert sizes(new(tmp_path)) == [1.0, 2.0, 3.0]
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_the_file_grows_while_measuring(tmp_path: Path, clock: FakeClock) -> None:
    """Every few seconds what is there is saved, so a crash costs no more than those."""
    lost: list[int] = []

    def calls(point: Point, _pool: Pool) -> list[Call]:
        lost.append(int(point.sizes["m"]) - 1 - len(new(tmp_path).rows))
        return [lambda: 1e-3]

    session(points(20), new(tmp_path), clock, 99.0, {"gemm": calls})
    assert len(lost) == 20
    assert max(lost) <= 3


def test_costly_points_wait_for_the_others(tmp_path: Path, clock: FakeClock) -> None:
    """Once the rate is known, a point above the clock's longest repeat comes after cheap ones."""
    cheap, costly = points(4, flop=1e9), Point("gemm", "bf16", {"m": 99.0}, 0, 1e12, 0.0)
    samples = new(tmp_path)
    seconds = {1.0: 1e-3, 2.0: 1e-3, 3.0: 1e-3, 4.0: 1e-3, 99.0: 1.0}
    ordered = [cheap[0], costly, *cheap[1:]]
    session(ordered, samples, clock, 99.0, timed(seconds))
    assert sizes(samples) == [1.0, 2.0, 3.0, 4.0, 99.0]


def test_a_point_that_would_overrun_is_left(tmp_path: Path, clock: FakeClock) -> None:
    """At the fastest rate seen a call takes a second, so six do not go into the three left."""
    cheap, costly = points(2, flop=1e9), Point("gemm", "bf16", {"m": 99.0}, 0, 1e12, 0.0)
    samples = new(tmp_path)
    outcome = session([*cheap, costly], samples, clock, 5.0, timed(1e-3))
    assert outcome == Outcome(measured=2, skipped=0, left=1)


def test_rates_are_of_each_data_type(tmp_path: Path, clock: FakeClock) -> None:
    """A slow type does not make a fast one look slow: what is not known yet is tried."""
    slow = Point("gemm", "fp32", {"m": 1.0}, 0, 1e6, 0.0)
    fast = Point("gemm", "bf16", {"m": 2.0}, 0, 1e12, 0.0)
    samples = new(tmp_path)
    session([slow, fast], samples, clock, 5.0, timed(1e-3))
    assert sizes(samples) == [1.0, 2.0]


def test_a_kernel_of_no_family_is_a_mistake(tmp_path: Path, clock: FakeClock) -> None:
    """A point nobody can run is not passed over in silence."""
    with pytest.raises(KeyError, match="unheard"):
        session(points(1, kernel="unheard"), new(tmp_path), clock, 5.0, timed())


def test_a_real_session_measures_real_kernels(tmp_path: Path) -> None:
    """One small point of each kernel, by the real clock: times above zero and the outcome told."""
    from hwprofiles.kernel_shapes import ExpertsShape, KernelShapes
    from kernels_ref.profiling.served import Served
    from kernels_ref.profiling.session import grid

    shapes = KernelShapes(
        linears=frozenset({(16, 8)}),
        heads=frozenset({(2, 1, 8)}),
        experts=frozenset({ExpertsShape(hidden=8, ffn=4, top_k=2, count=4)}),
        vocabularies=frozenset({(32, 8)}),
        widths=frozenset({8}),
    )
    all_points = sorted(grid(Served.of(shapes)), key=lambda point: point.flop + point.bytes)
    smallest = [
        next(group)
        for _, group in itertools.groupby(
            sorted(all_points, key=lambda point: point.kernel), key=lambda point: point.kernel
        )
    ]
    clock = Clock(torch.device("cpu"), threads=1, least_s=1e-3, most_s=2e-3)
    samples = new(tmp_path)
    outcome = run(smallest, samples, pool=POOL, clock=clock, budget_s=30.0)
    assert outcome == Outcome(measured=6, skipped=0, left=0)
    assert all(row["seconds"] > 0 for row in samples.rows.values())


def test_visits_lie_apart_and_the_fastest_counts(tmp_path: Path, clock: FakeClock) -> None:
    """Each point is visited as often as asked, others in between; a second session adds none."""
    samples = Samples(tmp_path / "a.parquet", HERE)
    visited: list[float] = []

    def calls(point: Point, _pool: Pool) -> list[Call]:
        visited.append(point.sizes["m"])
        seconds = 1e-3 / visited.count(point.sizes["m"])
        return [lambda: seconds]

    wanted = points(3)
    first, second = (
        run(wanted, samples, pool=POOL, clock=clock, budget_s=100, visits=2, calls={"gemm": calls})
        for _ in range(2)
    )
    assert visited == [1.0, 2.0, 3.0] * 2
    assert (first.measured, first.left, second.measured) == (3, 0, 0)
    assert [row["seconds"] for row in samples.rows.values()] == [5e-4] * 3


def test_what_waits_and_then_does_not_fit_is_skipped_once(tmp_path: Path, clock: FakeClock) -> None:
    """A costly point without room counts once, however many visits were asked for."""
    cheap, costly = points(1, flop=1e9), Point("gemm", "bf16", {"m": 9.0}, 0, 1e12, 0.0)
    outcome = run(
        [*cheap, costly],
        new(tmp_path),
        pool=POOL,
        clock=clock,
        budget_s=99,
        visits=3,
        calls=raising(9.0, DoesNotFitError("too large")),
    )
    assert outcome == Outcome(measured=1, skipped=1, left=0)
