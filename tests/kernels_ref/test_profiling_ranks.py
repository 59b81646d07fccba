"""The all-reduce timed by two processes on a CPU, as it is by several GPUs."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from kernels_ref.profiling import ranks
from kernels_ref.profiling.samples import Samples

SIZES = (256, 4096)


def test_two_processes_time_every_size() -> None:
    """As many samples of each size as are asked for, all of them times."""
    found = ranks.all_reduce_samples(2, SIZES, "cpu")

    assert tuple(found) == SIZES
    for seconds in found.values():
        assert len(seconds) == ranks.REPEATS
        assert (seconds > 0).all()


def test_only_the_gpus_that_there_are_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of five GPUs make pairs and a four; what is measured already is left."""
    asked: list[int] = []

    def counted(count: int, sizes: tuple[int, ...], device: str) -> dict[int, np.ndarray]:
        asked.append(count)
        return {size: np.full(3, 1e-6 * count) for size in sizes if device == "cuda"}

    monkeypatch.setattr(ranks, "all_reduce_samples", counted)
    samples = Samples(tmp_path / "gpu.parquet", {})

    assert ranks.measure_ranks(samples, 5) == 2 * len(ranks.MESSAGE_BYTES)
    assert ranks.measure_ranks(samples, 5) == 0
    assert asked == [2, 4]
    table = samples.table()
    assert sorted(table["ranks"].unique()) == [2, 4]
    assert table["seconds"].to_list() == (1e-6 * table["ranks"]).to_list()
