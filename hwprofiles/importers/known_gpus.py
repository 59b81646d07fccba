"""What data sheets say of GPUs that others measured, where their tables do not."""

from dataclasses import dataclass

from hwprofiles.derive.datasheet import SHEETS
from hwprofiles.profile import Peaks
from hwprofiles.provenance import Source


@dataclass(frozen=True)
class Chip:
    """Last-level cache and multiprocessors of a GPU, and who says so."""

    last_level_cache_bytes: float
    multiprocessors: int
    source: str


_A100 = Chip(40e6, 108, "NVIDIA A100 Tensor Core GPU Architecture white paper")
_HOPPER = Chip(50e6, 132, "NVIDIA H100 Tensor Core GPU Architecture white paper, SXM5")

CHIPS = {
    "a100_sxm": _A100,
    "b200_sxm": Chip(126e6, 148, "NVIDIA Blackwell Tuning Guide; CUDA device properties"),
    "h100_sxm": _HOPPER,
    "h200_sxm": _HOPPER,
    "l40s": Chip(96e6, 142, "NVIDIA L40S data sheet; NVIDIA Ada GPU Architecture white paper"),
    "rtx_pro_6000_server": Chip(
        128e6, 188, "NVIDIA RTX Blackwell PRO GPU Architecture white paper"
    ),
}
"""By the name of a system of aiconfigurator-core; only those whose figures NVIDIA publishes."""


@dataclass(frozen=True)
class Board:
    """A GPU as a profile describes it; without peaks, what was measured at most stands there."""

    description: str
    chip: Chip
    memory_bytes: float
    source: str
    """Of the memory."""
    peaks: Peaks | None = None


def _board(title: str, chip: Chip, memory_bytes: float, *, flop_per_s: float, rate: float) -> Board:
    source = Source(kind="datasheet", text=f"NVIDIA {title} data sheet, dense")
    peaks = Peaks(bf16_flop_per_s=flop_per_s, memory_bytes_per_s=rate, source=source)
    return Board(f"NVIDIA {title}", chip, memory_bytes, source.text, peaks)


_SHEET = SHEETS["h100-sxm"]
BOARDS = {
    "a100": _board("A100 SXM4, 80 GB", _A100, 80e9, flop_per_s=312e12, rate=2.039e12),
    "a40": _board(
        "A40, 48 GB",
        Chip(6e6, 84, "NVIDIA Ampere GA102 GPU Architecture white paper"),
        48e9,
        flop_per_s=149.7e12,
        rate=696e9,
    ),
    "h100": Board(_SHEET.description, _HOPPER, 80e9, _SHEET.peaks.source.text, _SHEET.peaks),
}
"""By the name of a device of Vidur's profiles."""
