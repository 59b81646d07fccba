"""What a measurement runs on: device, driver, software, clocks, threads."""

import os
import platform
import subprocess
from pathlib import Path

import torch

CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
CPU_TABLE = Path("/proc/cpuinfo")
UNITS_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
UNKNOWN_CACHE_BYTES = 64 * 2**20
"""Taken where the machine does not tell; larger than most."""
NVIDIA_FIELDS = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.limit")


class NoDeviceError(ValueError):
    """The device asked for is not here."""


def find_device(name: str) -> torch.device:
    """The torch device called *name*; raises NoDeviceError for cuda where there is no GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        rule = f"torch {torch.__version__} sees no CUDA device here; --device cpu measures the CPU"
        raise NoDeviceError(rule)
    return torch.device(name)


def describe(device: torch.device, threads: int) -> dict[str, str]:
    """Device, driver, software, clocks and threads, as a profile keeps them."""
    software = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "system": f"{platform.system()} {platform.release()}",
    }
    if device.type == "cuda":
        return {**_gpu(device), **software, "cuda": str(torch.version.cuda)}
    return {**_cpu(threads), **software}


def memory_bytes(device: torch.device) -> float:
    """Memory of the device."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def last_level_cache_bytes(device: torch.device) -> float:
    """The largest cache before memory."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_bytes(path.read_text().strip()) for path in CACHE_FOLDER.glob("index*/size")]
    return float(max(sizes, default=UNKNOWN_CACHE_BYTES))


def multiprocessors(device: torch.device, threads: int) -> int:
    """What a kernel's parts are spread over: multiprocessors of a GPU, threads of a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return threads


def _bytes(text: str) -> int:
    """107520K as the kernel writes it."""
    digits, unit = text.rstrip("KMG"), text[-1:]
    return int(digits) * UNITS_BYTES.get(unit, 1)


def _gpu(device: torch.device) -> dict[str, str]:
    """What torch and nvidia-smi tell."""
    told = {"device": torch.cuda.get_device_name(device)}
    asked = [f"--query-gpu={','.join(NVIDIA_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            ["nvidia-smi", *asked, f"--id={device.index or 0}"],  # noqa: S607 (where the driver put it)
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return told
    values = [value.strip() for value in done.stdout.split(",")]
    return told | dict(zip(NVIDIA_FIELDS, values, strict=False))


def _cpu(threads: int) -> dict[str, str]:
    """What the kernel and torch tell."""
    table = CPU_TABLE.read_text(encoding="utf-8") if CPU_TABLE.is_file() else ""
    pairs = (line.split(":", 1) for line in table.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in pairs}
    return {
        "device": fields.get("model name", platform.processor() or platform.machine()),
        "clocks": f"{fields['cpu MHz']} MHz" if "cpu MHz" in fields else "unknown",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bf16 tiles": "yes" if "amx_bf16" in fields.get("flags", "") else "no",
        "threads": str(threads),
    }
