"""Seconds per call: repeated until the spread is small, going round cold operands."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.benchmark import Timer

from hwprofiles.quantities import FloatArray

Call = Callable[[], object]

MOST_SPREAD = 0.05
"""Interquartile range over median at which repeating stops."""
LEAST_SAMPLES = 5
MOST_SAMPLES = 40
"""Beyond them the spread is the machine's, not the sample's."""
BLOCK_S = 2e-3
"""Short calls are timed this long at a time, far above what a clock resolves."""
GRAPH_S = 1e-3
"""Calls captured in one CUDA graph take about this long together."""
MOST_CAPTURED = 256


@dataclass(frozen=True)
class Clock:
    """How long a point may take: repeats go on for *least_s* and stop at *most_s*."""

    device: torch.device
    threads: int
    least_s: float = 0.02
    most_s: float = 0.1

    def seconds(self, calls: Sequence[Call]) -> FloatArray:
        """Samples of the time of one call; each goes on to the next of *calls*."""
        if self.device.type == "cuda":
            return self._graph_seconds(calls)
        return self._host_seconds(calls)

    def _host_seconds(self, calls: Sequence[Call]) -> FloatArray:
        """By torch's own benchmark timer, which also fixes the number of threads."""
        around = itertools.cycle(calls)

        def call() -> None:
            next(around)()

        call()
        once_s = max(wall_s(call), 1e-7)
        timer = Timer("call()", globals={"call": call}, num_threads=self.threads)
        if once_s > BLOCK_S / 2:
            # It sizes blocks by itself, which takes long calls least and short ones most time.
            measurement = timer.adaptive_autorange(
                threshold=MOST_SPREAD, min_run_time=self.least_s, max_run_time=self.most_s
            )
            return np.asarray(measurement.times, dtype=np.float64)
        count = math.ceil(BLOCK_S / once_s)
        samples: list[float] = []
        while not self._is_enough(samples, count):
            samples.append(timer.timeit(count).median)
        return np.asarray(samples)

    def _graph_seconds(self, calls: Sequence[Call]) -> FloatArray:
        """By events around replays of a CUDA graph, as engines launch kernels."""
        once_s = _warmed_up_s(calls[:3])
        count = int(np.clip(GRAPH_S / once_s, 1, MOST_CAPTURED))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in itertools.islice(itertools.cycle(calls), count):
                call()
        graph.replay()
        samples: list[float] = []
        while not self._is_enough(samples, count):
            samples.append(between_events_s(graph.replay) / count)
        return np.asarray(samples)

    def _is_enough(self, samples: Sequence[float], count: int) -> bool:
        spent_s = sum(samples) * count
        if len(samples) < LEAST_SAMPLES or spent_s < self.least_s:
            return False
        if len(samples) >= MOST_SAMPLES:
            return True
        low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75))
        return bool(high - low <= MOST_SPREAD * middle) or spent_s >= self.most_s


def wall_s(call: Call) -> float:
    """Seconds of one call by the wall clock."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def between_events_s(call: Call) -> float:
    """Seconds of one call on the GPU, by events before and after."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


def _warmed_up_s(calls: Sequence[Call]) -> float:
    """Run on a side stream first, as capturing demands: libraries initialise, compilers compile."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return max(between_events_s(calls[0]), 1e-7)
