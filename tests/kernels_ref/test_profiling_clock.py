"""Seconds per call: right to a factor with a real clock, and by the rules with a fake one."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.profiling import clock as module
from kernels_ref.profiling.clock import LEAST_SAMPLES, MOST_SAMPLES, Clock

CPU = torch.device("cpu")


def busy(seconds: float) -> Callable[[], None]:
    """A call that takes at least *seconds*, whatever else the machine does."""

    def call() -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    return call


@pytest.mark.parametrize("seconds", [5e-5, 4e-3])
def test_a_known_duration_comes_out(seconds: float) -> None:
    """A call that lasts 50 us or 4 ms is never found shorter, nor many times longer."""
    found = Clock(CPU, threads=1, least_s=0.005, most_s=0.02).seconds([busy(seconds)])
    assert len(found) >= 1
    assert found.min() >= 0.99 * seconds
    assert np.median(found) < 10 * seconds


def test_calls_are_gone_round() -> None:
    """Each call is followed by the next, so that every copy of an operand is met as often."""
    order: list[int] = []

    def call(copy: int) -> None:
        order.append(copy)
        time.sleep(2e-4)

    calls = [partial(call, copy) for copy in range(3)]
    Clock(CPU, threads=1, least_s=0.001, most_s=0.002).seconds(calls)
    assert order == [place % 3 for place in range(len(order))]
    assert len(order) >= 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seconds", [0.0, 2e-3])
def test_the_threads_are_those_asked_for(threads: int, seconds: float) -> None:
    """Short and long calls alike find as many threads as the clock was told, and leave the rest."""
    seen: set[int] = set()
    before, timed = torch.get_num_threads(), itertools.count()

    def call() -> None:
        # The first two runs size what follows.
        if next(timed) >= 2:
            seen.add(torch.get_num_threads())
        busy(seconds)()

    Clock(CPU, threads=threads, least_s=0.001, most_s=0.002).seconds([call])
    assert seen == {threads}
    assert torch.get_num_threads() == before


@dataclass
class FakeTimer:
    """Stands for torch's timer: each block takes per call what comes next."""

    times: Iterator[float]
    blocks: list[int]

    def timeit(self, count: int) -> "FakeTimer":
        """A block of *count* calls."""
        self.blocks.append(count)
        return self

    @property
    def median(self) -> float:
        """Seconds of one of its calls."""
        return next(self.times)


def faked(monkeypatch: pytest.MonkeyPatch, times: Iterator[float], once_s: float) -> list[int]:
    """Put a fake timer in place; the list that it writes its blocks to."""
    blocks: list[int] = []
    monkeypatch.setattr(module, "Timer", lambda *_, **__: FakeTimer(times, blocks))
    monkeypatch.setattr(module, "wall_s", lambda _call: once_s)
    return blocks


def test_steady_times_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 us a call is blocks of 20 in 2 ms; ten of them are the 20 ms that must be spent."""
    blocks = faked(monkeypatch, itertools.repeat(1e-4), once_s=1e-4)
    found = Clock(CPU, threads=1, least_s=0.0199, most_s=0.1).seconds([lambda: None])
    assert blocks == [20] * 10
    assert found.tolist() == [1e-4] * 10


def test_unsteady_times_go_on_until_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 and 300 us in turn are 4 ms a block in the mean; 25 of them make 100 ms."""
    faked(monkeypatch, itertools.cycle([1e-4, 3e-4]), once_s=1e-4)
    found = Clock(CPU, threads=1, least_s=0.02, most_s=0.0979).seconds([lambda: None])
    assert len(found) == 25


def test_one_spike_does_not_prolong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quartiles of steady times do not see one that is thrice as long."""
    times = itertools.chain([1e-4, 3e-4], itertools.repeat(1e-4))
    faked(monkeypatch, times, once_s=1e-4)
    assert len(Clock(CPU, threads=1, least_s=0.01, most_s=10.0).seconds([lambda: None])) == 5


def test_samples_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much time is allowed, no fewer than five and no more than forty."""
    faked(monkeypatch, itertools.cycle([1e-4, 3e-4]), once_s=1e-4)
    assert len(Clock(CPU, 1, least_s=0.0, most_s=100.0).seconds([lambda: None])) == MOST_SAMPLES
    faked(monkeypatch, itertools.repeat(1e-4), once_s=1e-4)
    assert len(Clock(CPU, 1, least_s=0.0, most_s=0.0).seconds([lambda: None])) == LEAST_SAMPLES
