"""`blockcast closed-loop`: does the simulator predict what a real decoder does on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from kernels_ref.closed_loop.session import Outcome, Request

BATCHES: Final = (1, 2, 4, 8, 16)
MOST_BATCH: Final = 256
MOST_PROBLEMS: Final = 10_000
MOST_REPEATS: Final = 100
ENOUGH_ROUNDS: Final = 3


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), required=True, help="What to time.")
@click.option(
    "--policy", "policies", multiple=True, metavar="POLICY", help="Compare this one; else eight."
)
@click.option("--batch", "batches", multiple=True, type=int, help="Rows; else 1, 2, 4, 8 and 16.")
@click.option("--problems", default=4, show_default=True, help="Prompts; a batch has its own rows.")
@click.option("--repeats", default=8, show_default=True, help="Most visits of everything.")
@click.option("--budget", default="10m", show_default=True, help="Time to measure: 90s, 8m, 1h.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="Of the kernels of this machine; else they are measured.",
)
@click.option("--out", type=click.Path(path_type=Path), help="New folder for all that is made.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(  # noqa: PLR0913 (one argument per option)
    *,
    device: str,
    policies: tuple[str, ...],
    batches: tuple[int, ...],
    problems: int,
    repeats: int,
    budget: str,
    profile: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Decode with real models, predict it from kernels, overhead and traces, and compare.

    Kernels are timed at the sizes that the decoders ask for, the engine's overhead on an empty
    model, and the runs themselves with a clock. Of a run the prediction knows its trace alone.
    Times are those of the one thread that decodes. Needs torch.
    """
    import json

    from reports.closed_loop import print_closed_loop
    from simulator.documents import DocumentError, Mistake
    from simulator.quantities import time_span_s
    from simulator.torch_extra import need_torch

    budget_s = time_span_s("--budget", budget)
    _check_counts(batches, problems, repeats)
    need_torch("closed-loop")
    try:
        with _folder(out) as folder:
            request = _request(
                device, policies, batches or BATCHES, problems, repeats, budget_s, folder, profile
            )
            answer = _answer(request)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise DocumentError("closed-loop", [Mistake("", what)]) from error
    except KeyboardInterrupt as stop:
        what = "interrupted; nothing is compared"
        raise DocumentError("closed-loop", [Mistake("", what)]) from stop
    if not out:
        del answer["folder"]
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_closed_loop(answer)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """A new folder, which stays if all goes well and it is *out*; raises DocumentError."""
    import shutil
    import tempfile

    from simulator.result_folder import check_new

    if out is None:
        with tempfile.TemporaryDirectory(prefix="blockcast-closed-loop-") as scratch:
            yield Path(scratch)
        return
    check_new(out)
    out.mkdir(parents=True)
    done = False
    try:
        yield out
        done = True
    finally:
        if not done:
            shutil.rmtree(out, ignore_errors=True)


def _check_counts(batches: tuple[int, ...], problems: int, repeats: int) -> None:
    from simulator.documents import DocumentError, Mistake

    counts = [("--batch", batch, MOST_BATCH) for batch in batches]
    counts += [("--problems", problems, MOST_PROBLEMS), ("--repeats", repeats, MOST_REPEATS)]
    mistakes = [
        Mistake(option, f"is 1 to {most}, got {value}")
        for option, value, most in counts
        if not 1 <= value <= most
    ]
    if mistakes:
        raise DocumentError("closed-loop", mistakes)


def _request(  # noqa: PLR0913, PLR0917 (what a user may choose)
    device: str,
    policies: tuple[str, ...],
    batches: tuple[int, ...],
    problems: int,
    repeats: int,
    budget_s: float,
    folder: Path,
    profile: Path | None,
) -> "Request":
    """What is measured; raises DocumentError for what cannot be."""
    from kernels_ref.closed_loop.cases import cases, known_policies
    from kernels_ref.closed_loop.session import Request
    from kernels_ref.profiling.environment import NoDeviceError, find_device
    from simulator.documents import DocumentError, Mistake, known

    wrong = [name for name in policies if name not in known_policies()]
    if wrong:
        what = known(wrong[0], known_policies(), "policy of a closed loop")
        raise DocumentError("--policy", [Mistake("", what)])
    try:
        found = find_device(device)
    except NoDeviceError as error:
        raise DocumentError("--device", [Mistake("", str(error))]) from error
    if profile is not None:
        _check_profile(profile, device)
    return Request(
        cases=cases(policies, found),
        batches=sorted(set(batches)),
        problems=problems,
        repeats=repeats,
        budget_s=budget_s,
        folder=folder,
        device=found,
        profile=profile,
    )


def _check_profile(path: Path, device: str) -> None:
    """Raise DocumentError for a profile of another machine, or without single precision."""
    from kernels_ref.closed_loop.cases import THREADS
    from kernels_ref.profiling import environment
    from simulator.documents import DocumentError, Mistake
    from simulator.library import HARDWARE

    hardware = HARDWARE.get(str(path) if path.parent != Path() else f"./{path}")
    here = environment.describe(environment.find_device(device), THREADS)
    of = hardware.environment or {}
    needed = ("gemm", "lm_head", "attention_extend", "attention_prefill")
    mistakes = [
        Mistake("environment", f"{name} is {here[name]} here, {of.get(name, 'unknown')} there")
        for name in ("device", "threads", "torch")
        if name in here and of.get(name) != here[name]
    ]
    kernels = hardware.kernels
    lacking = [name for name in needed if "fp32" not in getattr(kernels, name)]
    mistakes += [Mistake("kernels", f"has no fp32 {name} curve") for name in lacking]
    if mistakes:
        raise DocumentError(str(path), mistakes)


def _answer(request: "Request") -> dict[str, Any]:
    """Measure, predict and compare."""
    from hwprofiles.fitting.points import MeasurementError
    from kernels_ref.capture.run import CaptureError
    from kernels_ref.closed_loop.session import BudgetError, measure
    from simulator.closed_loop import closed_loop, write_rows
    from simulator.documents import DocumentError, Mistake
    from simulator.progress import share_bar

    try:
        with share_bar("closed loop") as progress:
            outcome = measure(request, progress)
    except BudgetError as error:
        raise DocumentError("--budget", [Mistake("", str(error))]) from error
    except (CaptureError, MeasurementError) as error:
        raise DocumentError("closed-loop", [Mistake("", str(error))]) from error
    answer = closed_loop(_runs(outcome), outcome.profile, outcome.empty_profile, request.folder)
    write_rows(answer["rows"], request.folder / "rows.csv")
    about = {
        "rounds": outcome.rounds,
        "seconds": outcome.seconds,
        "folder": str(request.folder),
        "warnings": _warnings(outcome.rounds),
    }
    return answer | about


def _warnings(rounds: int) -> list[str]:
    """What the comparison cannot be trusted for."""
    if rounds >= ENOUGH_ROUNDS:
        return []
    what = "what else the machine did is still in the times; a longer --budget takes it out"
    return [f"everything was visited {rounds} of at least {ENOUGH_ROUNDS} times: {what}"]


def _runs(outcome: "Outcome") -> list[Any]:
    """What was measured, as the prediction takes it."""
    import dataclasses

    from simulator.closed_loop import Run

    return [Run(**{**vars(run), "shape": dataclasses.asdict(run.shape)}) for run in outcome.runs]
