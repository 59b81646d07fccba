"""`blockcast profile`: a hardware profile of the machine it runs on."""

import functools
import operator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kernels_ref.profiling.measure import Request
    from simulator.model import ModelSpec

# Whose shapes come first unless others are named; a CPU has small shapes of its own.
MODELS: dict[str, tuple[str, ...]] = {"cpu": (), "cuda": ("qwen3-8b", "llada2-mini")}

MOST_THREADS = 1024
"""More than any machine has cores; far beyond it torch itself gives up."""


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), required=True, help="What to time.")
@click.option("--name", help="Name of the profile; the device when absent.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path(), help="Folder for it.")
@click.option("--budget", default="8m", show_default=True, help="Time to measure: 90s, 8m, 1h.")
@click.option("--model", "models", multiple=True, help="Measure this model's shapes first.")
@click.option("--tp", default=1, show_default=True, type=click.IntRange(1), help="GPUs per model.")
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(["fp32", "bf16", "fp8"]),
    help="Data types; those the device is good at when absent.",
)
@click.option(
    "--threads", type=click.IntRange(1, MOST_THREADS), help="Of the CPU; all but one when absent."
)
@click.option("--memory", help="Most that operands take, as 2GiB.")
@click.option("--working-set", help="Operands go round this much, as 8MB; else twice the cache.")
@click.option("--passes", is_flag=True, help="Time whole forward passes of each --model instead.")
@click.option("--fresh", is_flag=True, help="Forget the samples that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(  # noqa: PLR0913 (one argument per option)
    *,
    device: str,
    name: str | None,
    out: Path,
    budget: str,
    models: tuple[str, ...],
    tp: int,
    precisions: tuple[str, ...],
    threads: int | None,
    memory: str | None,
    working_set: str | None,
    passes: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Time real kernels on this machine and fit a hardware profile to them.

    The most important sizes come first, and raw samples are kept beside the profile: the same
    command goes on where it was interrupted, and adds points otherwise. With --passes, whole
    forward passes with random weights are compared with the profile there is. Needs torch.
    """
    from hwprofiles.fitting.points import MeasurementError
    from hwprofiles.kernel_shapes import KernelShapes
    from simulator.cost import MissingKernelError
    from simulator.documents import DocumentError, Mistake
    from simulator.kernel_shapes import kernel_shapes
    from simulator.library import MODELS as SHELF
    from simulator.quantities import byte_size, time_span_s
    from simulator.torch_extra import need_torch

    if name is not None and (not name.strip() or Path(name).name != name):
        what = f"a name is one part of a path, without separators, got {name!r}"
        raise DocumentError("--name", [Mistake("", what)])
    if out.exists() and not out.is_dir():
        raise DocumentError(str(out), [Mistake("", "is a file; -o needs a folder")])
    served = [SHELF.get(model) for model in models or MODELS[device]]
    _check_split(served, tp)
    budget_s = time_span_s("--budget", budget)
    memory_bytes = byte_size("--memory", memory) if memory else None
    working_set_bytes = byte_size("--working-set", working_set) if working_set else None
    if passes and not served:
        raise DocumentError("--passes", [Mistake("", "whole passes of what? name a --model")])
    need_torch("profile")
    from kernels_ref.profiling.environment import NoDeviceError
    from kernels_ref.profiling.measure import request
    from kernels_ref.profiling.samples import SamplesError
    from kernels_ref.profiling.session import RefusedError

    try:
        asked = request(
            device,
            name or device,
            out,
            functools.reduce(operator.or_, (kernel_shapes(m, tp) for m in served), KernelShapes()),
            budget_s=budget_s,
            precisions=precisions,
            threads=threads,
            memory_bytes=memory_bytes,
            working_set_bytes=working_set_bytes,
        )
        if fresh:
            (asked.passes_path if passes else asked.samples_path).unlink(missing_ok=True)
        if passes:
            _time_passes(asked, served, as_json=as_json)
        else:
            _time_kernels(asked, as_json=as_json)
    except MeasurementError as error:
        what = f"{error}; what was measured is kept, and the same command goes on from it"
        raise DocumentError("profile", [Mistake("", what)]) from error
    except (NoDeviceError, SamplesError, RefusedError, MissingKernelError, OSError) as error:
        raise DocumentError("profile", [Mistake("", str(error))]) from error
    except KeyboardInterrupt as stop:
        what = f"interrupted; what was measured is in {out}, and the same command goes on from it"
        raise DocumentError("profile", [Mistake("", what)]) from stop


def _check_split(served: "list[ModelSpec]", tp: int) -> None:
    """Raise DocumentError unless *tp* GPUs share every model evenly."""
    from simulator.compatibility import check_split
    from simulator.scenario import Findings, Parallel

    findings = Findings("--tp")
    for model in served:
        check_split(model, {"parallel": Parallel(tp=tp)}, findings)
    findings.stop()


def _time_kernels(asked: "Request", *, as_json: bool) -> None:
    """Measure, fit, and tell what came out."""
    import json

    from kernels_ref.profiling.measure import fit, measure
    from reports.profile import print_profile
    from simulator.measured import profile_summary
    from simulator.progress import share_bar

    with share_bar("timing kernels") as progress:
        outcome = measure(asked, progress)
    answer = profile_summary(fit(asked), vars(outcome), asked.profile_path, asked.samples_path)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_profile(answer)


def _time_passes(asked: "Request", served: "list[ModelSpec]", *, as_json: bool) -> None:
    """Measure whole passes and compare them with the profile beside, where there is one."""
    import dataclasses
    import json

    from kernels_ref.profiling.passes import measure_passes
    from reports.profile import print_passes
    from simulator.library import HARDWARE
    from simulator.measured import pass_comparison
    from simulator.progress import share_bar

    rows = []
    for model in served:
        with share_bar(f"timing passes of {model.name}") as progress:
            samples = measure_passes(asked, model.name, dataclasses.asdict(model), progress)
        if asked.profile_path.exists():
            hardware = HARDWARE.get(str(asked.profile_path))
            mine = [row for row in samples.rows.values() if row["operation"] == model.name]
            rows += pass_comparison(hardware, model, mine)
    answer = {"samples": str(asked.passes_path), "passes": rows}
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_passes(answer)
