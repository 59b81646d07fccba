"""What a measurement says it was made on."""

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.profiling import environment

CPU = torch.device("cpu")


def test_a_cpu_tells_what_matters() -> None:
    """Device, clocks, instructions, threads and software, each a text that is not empty."""
    told = environment.describe(CPU, threads=3)
    names = {"device", "clocks", "instructions", "bf16 tiles", "threads"}
    assert set(told) == names | {"python", "torch", "system"}
    assert all(isinstance(value, str) and value for value in told.values())
    assert told["threads"] == "3"
    assert told["torch"] == torch.__version__
    assert told["bf16 tiles"] in {"yes", "no"}


def test_a_machine_without_a_table_of_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel lists no processors, what Python knows stands in, and clocks are unknown."""
    monkeypatch.setattr(environment, "CPU_TABLE", tmp_path / "nothing")
    told = environment.describe(CPU, threads=1)
    assert told["device"]
    assert told["clocks"] == "unknown"


def test_a_table_of_processors_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, clock and flags are read; odd lines are passed over."""
    table = tmp_path / "cpuinfo"
    table.write_text(
        "processor\t: 0\nmodel name\t: A chip: 9000\ncpu MHz\t\t: 2100.5\n\nodd line\n"
        "flags\t\t: fpu amx_bf16 amx_tile\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(environment, "CPU_TABLE", table)
    told = environment.describe(CPU, threads=1)
    assert told["device"] == "A chip: 9000"
    assert told["clocks"] == "2100.5 MHz"
    assert told["bf16 tiles"] == "yes"


def test_the_largest_cache_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 48K, 2M and 107520K the last is the largest: 105 MiB."""
    for index, size in enumerate(["48K", "2M", "107520K"]):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "size").write_text(f"{size}\n", encoding="utf-8")
    monkeypatch.setattr(environment, "CACHE_FOLDER", tmp_path)
    assert environment.last_level_cache_bytes(CPU) == 105 * 2**20


def test_an_unknown_cache_is_taken_to_be_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too cold does no harm, too warm does."""
    monkeypatch.setattr(environment, "CACHE_FOLDER", tmp_path)
    assert environment.last_level_cache_bytes(CPU) == environment.UNKNOWN_CACHE_BYTES


def test_memory_is_that_of_the_machine() -> None:
    """Pages times their size, and never less than this process uses."""
    total = environment.memory_bytes(CPU)
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert total > 2**28


def test_work_is_spread_over_threads_of_a_cpu() -> None:
    """As many parts at a time as there are threads."""
    assert environment.multiprocessors(CPU, threads=5) == 5


def test_a_device_that_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which torch does not see a GPU, and what works instead."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(environment.NoDeviceError, match=r"sees no CUDA device.*--device cpu"):
        environment.find_device("cuda")
    assert environment.find_device("cpu") == CPU
