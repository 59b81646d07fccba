"""Times the all-reduce, which takes a process per device and so no turn in a session."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from hwprofiles.quantities import FloatArray
from kernels_ref.kernels.all_reduce import all_reduce
from kernels_ref.profiling.clock import between_events_s, wall_s
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.samples import Samples

RANKS = (2, 4, 8)
MESSAGE_BYTES = tuple(2**power for power in range(8, 30))
REPEATS = 20
"""The same on every rank: a rank that stopped earlier would leave the others waiting."""
CALLS = 10
"""Between two readings of the clock."""
RESULT = "seconds.npy"


@dataclass(frozen=True)
class Rendezvous:
    """What the processes agree on: where to meet, what to sum, and on what."""

    folder: str
    ranks: int
    message_bytes: tuple[int, ...]
    device: str


def all_reduce_samples(
    ranks: int, message_bytes: Sequence[int], device: str
) -> dict[int, FloatArray]:
    """Seconds of a sum of bf16 messages over *ranks* devices, by size; REPEATS samples each."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_rank, (Rendezvous(folder, ranks, tuple(message_bytes), device),), nprocs=ranks)
        seconds = np.load(Path(folder) / RESULT)
    return dict(zip(message_bytes, seconds, strict=True))


def measure_ranks(samples: Samples, devices: int) -> int:
    """Add the all-reduce over 2, 4 and 8 of the GPUs there are; how many points were added."""
    before = len(samples.rows)
    for ranks in (count for count in RANKS if count <= devices):
        points = {size: _point(size, ranks) for size in MESSAGE_BYTES}
        if all(point.key in samples.rows for point in points.values()):
            continue
        for size, seconds in all_reduce_samples(ranks, MESSAGE_BYTES, "cuda").items():
            samples.add(points[size], seconds)
        samples.save()
    return len(samples.rows) - before


def _point(message_bytes: int, ranks: int) -> Point:
    sizes = {"message_bytes": message_bytes, "ranks": ranks}
    return Point("all_reduce", "bf16", sizes, level=0, flop=0.0, bytes=2.0 * message_bytes)


def _rank(rank: int, meeting: Rendezvous) -> None:
    """One process: sums every message with the others; the first one keeps the times."""
    on_gpu = meeting.device == "cuda"
    if on_gpu:
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{meeting.folder}/meeting",
        rank=rank,
        world_size=meeting.ranks,
    )
    device = torch.device(f"cuda:{rank}" if on_gpu else "cpu")
    seconds = [_samples(size, device) for size in meeting.message_bytes]
    if rank == 0:
        np.save(Path(meeting.folder) / RESULT, np.array(seconds))
    distributed.barrier()
    distributed.destroy_process_group()


def _samples(message_bytes: int, device: torch.device) -> list[float]:
    message = torch.zeros(message_bytes // 2, dtype=torch.bfloat16, device=device)

    def calls() -> None:
        for _ in range(CALLS):
            all_reduce(message)

    calls()
    if device.type == "cpu":
        return [wall_s(calls) / CALLS for _ in range(REPEATS)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    graph.replay()
    return [between_events_s(graph.replay) / CALLS for _ in range(REPEATS)]
