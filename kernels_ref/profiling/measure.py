"""Measures a machine and fits its hardware profile: the work of `blockcast profile`."""

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from hwprofiles import HardwareProfile
from hwprofiles.derive.datasheet import sheets_of
from hwprofiles.fitting.assemble import fit_profile
from hwprofiles.fitting.device import CPU_ATTENTION, Device
from hwprofiles.fitting.document import document, write
from hwprofiles.fitting.points import MeasurementError, fitted_rows, masked_over_whole
from hwprofiles.kernel_shapes import KernelShapes
from kernels_ref.profiling import environment
from kernels_ref.profiling.clock import Clock
from kernels_ref.profiling.point import DataType
from kernels_ref.profiling.pool import Pool
from kernels_ref.profiling.ranks import measure_ranks
from kernels_ref.profiling.samples import Samples
from kernels_ref.profiling.served import Served
from kernels_ref.profiling.session import Outcome, Progress, grid, run
from kernels_ref.profiling.spread import spread

CACHES = 2.0
"""Operands go round a stretch of memory this many times the last-level cache."""
VISITS = {"cpu": 5, "cuda": 1}
"""A CPU is shared with whatever else runs, and a virtual one with neighbours nobody sees."""
REPEATS = {"cpu": {"least_s": 0.01, "most_s": 0.05}, "cuda": {"least_s": 0.02, "most_s": 0.1}}
"""Of one visit; many short ones see more of a shared machine's moods than few long ones."""
SPARE_CORES = 1
"""Threads that wait for one another are as slow as the one that something else disturbs."""
MOST_OPERAND_BYTES = {"cpu": 2 * 2**30, "cuda": 20 * 2**30}


@dataclass(frozen=True)
class Request:
    """What to measure, where, and for how long."""

    device: torch.device
    name: str
    folder: Path
    served: Served
    threads: int
    budget_s: float
    memory_bytes: float
    """Most that operands may take."""
    working_set_bytes: float | None = None
    """What operands go round; CACHES times the last-level cache when None."""

    @property
    def profile_path(self) -> Path:
        """Where the profile goes."""
        return self.folder / f"{self.name}.yaml"

    @property
    def samples_path(self) -> Path:
        """Where the raw samples go, beside the profile."""
        return self.folder / f"{self.name}.parquet"

    @property
    def passes_path(self) -> Path:
        """Where samples of whole forward passes go."""
        return self.folder / f"{self.name}-passes.parquet"

    @property
    def rotated_bytes(self) -> float:
        """What operands go round."""
        cache = environment.last_level_cache_bytes(self.device)
        wanted = CACHES * cache if self.working_set_bytes is None else self.working_set_bytes
        return min(wanted, self.memory_bytes)

    def environment(self) -> dict[str, str]:
        """What the samples are taken on, and how."""
        megabytes = f"{self.rotated_bytes / 1e6:.0f} MB"
        return {
            **environment.describe(self.device, self.threads),
            "operands go round": megabytes,
        }

    def pool(self) -> Pool:
        """What operands are cut from."""
        return Pool(self.device, working_set_bytes=self.rotated_bytes, most_bytes=self.memory_bytes)

    def clock(self) -> Clock:
        """What calls are timed by."""
        return Clock(self.device, self.threads, **REPEATS[self.device.type])


def request(  # noqa: PLR0913 (what a user may choose)
    device: str,
    name: str,
    folder: Path,
    shapes: KernelShapes,
    *,
    budget_s: float,
    precisions: Sequence[str] = (),
    threads: int | None = None,
    memory_bytes: float | None = None,
    working_set_bytes: float | None = None,
) -> Request:
    """The request for *shapes* first and the spread of the device after; raises NoDeviceError.

    What is None is what suits the device.
    """
    found, beside = environment.find_device(device), spread(device)
    beside = replace(
        beside, precisions=cast("tuple[DataType, ...]", tuple(precisions)) or beside.precisions
    )
    return Request(
        device=found,
        name=name,
        folder=folder,
        served=beside | Served.of(shapes),
        threads=threads or max(1, (os.cpu_count() or 1) - SPARE_CORES),
        budget_s=budget_s,
        memory_bytes=memory_bytes or MOST_OPERAND_BYTES[device],
        working_set_bytes=working_set_bytes,
    )


def measure(request: Request, progress: Progress) -> Outcome:
    """Take samples until the budget is spent, going on with those that are there.

    Raises SamplesError where they were taken elsewhere.
    """
    samples = Samples.open(request.samples_path, request.environment())
    torch.set_num_threads(request.threads)
    with torch.inference_mode():
        outcome = run(
            grid(request.served),
            samples,
            pool=request.pool(),
            clock=request.clock(),
            budget_s=request.budget_s,
            visits=VISITS[request.device.type],
            progress=progress,
        )
    if request.device.type == "cuda" and torch.cuda.device_count() > 1:
        added = measure_ranks(samples, torch.cuda.device_count())
        outcome = replace(outcome, measured=outcome.measured + added)
    return outcome


def fit(request: Request) -> HardwareProfile:
    """Fit the profile to the samples there are and write it beside them.

    Raises MeasurementError where a kernel has too few, or too odd ones for curves that rise.
    """
    samples = Samples.open(request.samples_path, request.environment())
    if not samples.rows:
        rule = f"{request.samples_path} has no points yet; a longer --budget measures some"
        raise MeasurementError(rule)
    table = samples.table()
    try:
        profile = fit_profile(fitted_rows(table), _device(request, samples))
    except MeasurementError:
        raise
    except ValueError as error:
        rule = f"no profile can be made of {request.samples_path}: {error}"
        raise MeasurementError(rule) from error
    write(request.profile_path, document(profile, "blockcast profile", "as the machine tells"))
    return profile


def _device(request: Request, samples: Samples) -> Device:
    """What the fits and the profile are told of the machine."""
    told, device = samples.environment, request.device
    tiles: Mapping[str, Any] = {} if device.type == "cuda" else CPU_ATTENTION
    today = dt.datetime.now(tz=dt.UTC).date()
    software = f"torch {told['torch']}, {told['system']}"
    visits = samples.table()["visits"]
    fastest = f", the fastest of {visits.min():.0f} to {visits.max():.0f} visits"
    repeats = "medians of repeats" + (fastest if visits.max() > 1 else "")
    threads = f", {_counted(told['threads'], 'thread')}" if "threads" in told else ""
    return Device(
        name=request.name,
        description=f"{told['device']}{threads}, measured by blockcast profile",
        memory_bytes=environment.memory_bytes(device),
        last_level_cache_bytes=environment.last_level_cache_bytes(device),
        multiprocessors=environment.multiprocessors(device, request.threads),
        source=f"blockcast profile on {told['device']}{threads}, {software}, {today}; {repeats}",
        peaks=next((sheet.peaks for sheet in sheets_of(told["device"]).values()), None),
        tabulates=True,
        environment=dict(told),
        points=request.samples_path.name,
        notes=_notes(samples),
        **tiles,
    )


def _counted(number: str, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == "1" else "s")


def _notes(samples: Samples) -> dict[str, str]:
    found = masked_over_whole(samples.table())
    if found is None:
        return {}
    ratio, points = found
    told = f"a causal mask among the queries took {ratio:.2f} times as long ({points} points)"
    return {"attention_extend": told}
