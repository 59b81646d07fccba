"""Hardware profiles: how long the kernels of a decoder take on one GPU, and where that is from."""

from pathlib import Path

from hwprofiles.kernel_time import KernelTime
from hwprofiles.profile import HardwareProfile, Kernels, Peaks, Residual, Source

__all__ = ["DATA", "HardwareProfile", "KernelTime", "Kernels", "Peaks", "Residual", "Source"]

DATA = Path(__file__).parent / "data"
"""The folder of the shipped profiles, one YAML file each."""
