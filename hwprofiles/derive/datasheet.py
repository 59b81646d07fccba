"""What NVIDIA's data sheets say of each GPU."""

from dataclasses import dataclass

from hwprofiles.profile import Peaks
from hwprofiles.provenance import Source

LINK_NOTE = "NVLink 900 GB/s counts both ways, 450 GB/s one way"


@dataclass(frozen=True)
class Sheet:
    """The facts of one GPU; *measured_as* is its name in the measured tables."""

    measured_as: str
    description: str
    memory_bytes: float
    l2_bytes: float
    multiprocessors: int
    peaks: Peaks


def _hopper(measured_as: str, title: str, *, memory_bytes: float, bytes_per_s: float) -> Sheet:
    """H100 and H200 are one chip with different memory."""
    return Sheet(
        measured_as=measured_as,
        description=f"NVIDIA {title} SXM5, {memory_bytes / 1e9:.0f} GB",
        memory_bytes=memory_bytes,
        l2_bytes=50e6,
        multiprocessors=132,
        peaks=Peaks(
            bf16_flop_per_s=989e12,
            fp8_flop_per_s=1979e12,
            memory_bytes_per_s=bytes_per_s,
            link_bytes_per_s=450e9,
            source=Source(
                kind="datasheet",
                text=f"NVIDIA {title} Tensor Core GPU data sheet, SXM, dense; {LINK_NOTE}",
            ),
        ),
    )


SHEETS = {
    "h100-sxm": _hopper("H100_SXM", "H100", memory_bytes=80e9, bytes_per_s=3.35e12),
    "h200-sxm": _hopper("H200_SXM", "H200", memory_bytes=141e9, bytes_per_s=4.8e12),
}


def sheets_of(device_name: str) -> dict[str, Sheet]:
    """The sheets of the GPU that a driver calls *device_name*, by profile; none where unknown."""
    return {
        name: sheet
        for name, sheet in SHEETS.items()
        if sheet.measured_as.split("_", maxsplit=1)[0] in device_name
    }
