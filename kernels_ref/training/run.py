"""One training run: steps by a recipe, a log of its losses, a state to resume from, a checkpoint.

All chance of a step follows from (seed, step), so a run that was stopped and resumed gives the same
weights as one that was not, on the same machine with the same number of threads.
"""

import csv
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from kernels_ref.training.learner import Learner, TrainingError
from kernels_ref.training.optimiser import Optimiser
from kernels_ref.training.recipe import Course

SAVED_EVERY = 100
LOGGED_EVERY = 10


@dataclass(frozen=True)
class LogLine:
    """The mean loss of the steps since the line before."""

    step: int
    loss: float
    """nats a token"""
    learning_rate_share: float
    elapsed_s: float


def use_threads(threads: int) -> None:
    """Train with so many threads of the CPU: another number may round sums in another way."""
    torch.set_num_threads(threads)


def train(  # noqa: PLR0913 (a run's settings)
    recipe: Course,
    learner: Learner,
    *,
    folder: Path,
    resume: bool = False,
    report: Callable[[LogLine], object] = str,
    steps: int | None = None,
    stop: Callable[[], bool] = bool,
) -> bool:
    """Train *learner* by *recipe* and write its checkpoint into *folder*, the log beside it.

    After *steps*, or the step in which *stop* began to say so, it ends early, with nothing but a
    state to *resume* from; whether it came to its end. Raises TrainingError for a state of another
    recipe, and for a loss that is no number any more.
    """
    tensors = learner.tensors
    optimiser = Optimiser(tensors, recipe)
    run = _Run(recipe, folder / f"{recipe.name}.state.safetensors")
    if resume:
        run.restore(tensors, optimiser)
    last = recipe.steps if steps is None else min(steps, recipe.steps)
    began = time.monotonic() - run.elapsed_s
    while (step := len(run.losses)) < last:
        value = learner.loss(step)
        if not value.isfinite():
            what = f"the loss of step {step + 1} is {float(value)}; lower the learning rates"
            raise TrainingError(what)
        value.backward()
        optimiser.step(step)
        run.losses.append(float(value.detach()))
        run.elapsed_s = time.monotonic() - began
        done = step + 1
        last = done if stop() else last
        if done % LOGGED_EVERY == 0 or done == last:
            report(run.line())
        if done % SAVED_EVERY == 0 or done == last:
            run.save(tensors, optimiser)
    if len(run.losses) < recipe.steps:
        return False
    run.write_log(folder / f"{recipe.name}.log.csv")
    learner.write(folder, run.losses)
    run.state.unlink()
    return True


@dataclass
class _Run:
    """How far a run is, and the file that says so."""

    recipe: Course
    state: Path
    losses: list[float]
    elapsed_s: float

    def __init__(self, recipe: Course, state: Path) -> None:
        self.recipe, self.state = recipe, state
        self.losses, self.elapsed_s = [], 0.0

    def line(self) -> LogLine:
        """The log line of the last steps."""
        step = len(self.losses)
        recent = self.losses[(step - 1) // LOGGED_EVERY * LOGGED_EVERY :]
        share = self.recipe.learning_rate_share(step - 1)
        return LogLine(step, sum(recent) / len(recent), share, self.elapsed_s)

    def save(self, tensors: Mapping[str, torch.Tensor], optimiser: Optimiser) -> None:
        """Replace the state file at once, so that it is never half a state."""
        weights = {f"weights.{name}": t.detach().contiguous() for name, t in tensors.items()}
        moments = {f"optimiser.{name}": t for name, t in optimiser.state().items()}
        about = {"recipe": json.dumps(asdict(self.recipe), sort_keys=True)}
        about |= {"losses": json.dumps(self.losses), "elapsed_s": repr(self.elapsed_s)}
        self.state.parent.mkdir(parents=True, exist_ok=True)
        partial = self.state.with_suffix(".partial")
        save_file({**weights, **moments}, partial, metadata=about)
        partial.replace(self.state)

    def restore(self, tensors: Mapping[str, torch.Tensor], optimiser: Optimiser) -> None:
        """Continue from the state file; without one the run starts at the beginning."""
        if not self.state.is_file():
            return
        try:
            with safe_open(self.state, framework="pt") as file:
                about = file.metadata() or {}
            saved = load_file(self.state)
        except SafetensorError as error:
            what = f"{self.state}: not a training state: {error}"
            raise TrainingError(what) from error
        if about.get("recipe") != json.dumps(asdict(self.recipe), sort_keys=True):
            what = f"{self.state}: of another recipe; --fresh begins anew"
            raise TrainingError(what)
        self.losses = list(json.loads(about["losses"]))
        self.elapsed_s = float(about["elapsed_s"])
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(saved[f"weights.{name}"])
        moments = {name: t for name, t in saved.items() if name.startswith("optimiser.")}
        optimiser.restore({n.removeprefix("optimiser."): t for n, t in moments.items()})

    def write_log(self, path: Path) -> None:
        """The loss of every step, as CSV."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["step", "loss_nats_per_token"])
            writer.writerows((i + 1, f"{value:.5f}") for i, value in enumerate(self.losses))


def logged_losses(path: Path) -> list[float]:
    """The loss of every step in nats a token, from a log; raises TrainingError with its reason."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [float(row["loss_nats_per_token"]) for row in csv.DictReader(file)]
    except OSError as error:
        what = f"{path}: cannot be read: {error.strerror}"
        raise TrainingError(what) from error
    except (ValueError, KeyError, TypeError) as error:
        what = f"{path}: not a log of losses; it has a column loss_nats_per_token of numbers"
        raise TrainingError(what) from error
