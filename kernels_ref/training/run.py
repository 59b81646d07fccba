"""One training run: steps by a recipe, a log of its losses, a state to resume from, a checkpoint.

All chance of a step follows from (seed, step), so a run that was stopped and resumed gives the same
weights as one that was not, on the same machine with the same number of threads.
"""

import csv
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from kernels_ref.checkpoint import (
    CheckpointError,
    CheckpointManifest,
    checkpoint_tensors,
    read_checkpoint,
    write_checkpoint,
)
from kernels_ref.kernels.moe import Router
from kernels_ref.named_weights import named_tensors, weights_of
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import normal, random_weights
from kernels_ref.task.vocabulary import END, MASK, WORDS
from kernels_ref.training.objectives import loss
from kernels_ref.training.optimiser import Optimiser
from kernels_ref.training.recipe import Recipe

CONTEXT_TOKENS = 192
LAYERS = 4
DENSE = LayerShape(LAYERS, query_heads=6, kv_heads=2, head_dim=32, ffn=512, qk_norm=True)
EXPERTS = LayerShape(
    LAYERS,
    query_heads=6,
    kv_heads=2,
    head_dim=32,
    experts=ExpertShape(8, 160, Router(2, score="sigmoid", scaling=2.0), shared=1),
    qk_norm=True,
)
SAVED_EVERY = 100
LOGGED_EVERY = 10
LAST_PART = 20
"""The final loss is the mean over the last 1/20 of the steps."""


class TrainingError(ValueError):
    """A run that cannot start or go on, and why."""


@dataclass(frozen=True)
class LogLine:
    """The mean loss of the steps since the line before."""

    step: int
    loss: float
    """nats a token"""
    learning_rate_share: float
    elapsed_s: float


def shape_of(recipe: Recipe, *, hidden: int = 192) -> PassShape:
    """The reference architecture: 1.6 M parameters, dense or with experts."""
    layer = EXPERTS if recipe.experts else DENSE
    return PassShape(hidden, len(WORDS), (layer,), rotary_theta=1e4, tied=True)


def use_threads(threads: int) -> None:
    """Train with so many threads of the CPU: another number may round sums in another way."""
    torch.set_num_threads(threads)


def train(  # noqa: PLR0913 (a run's settings)
    recipe: Recipe,
    *,
    folder: Path,
    start: Path | None,
    resume: bool = False,
    report: Callable[[LogLine], object] = str,
    steps: int | None = None,
    stop: Callable[[], bool] = bool,
    shape: PassShape | None = None,
) -> CheckpointManifest | None:
    """Train by *recipe* and write its checkpoint into *folder*, the log beside it.

    *start* is the manifest to start from. After *steps*, or the step in which *stop* began to say
    so, it ends early, with nothing but a state to *resume* from, and gives None. *shape* is the
    reference architecture when absent. Raises CheckpointError for a bad start, TrainingError for a
    state of another recipe.
    """
    shape = shape or shape_of(recipe)
    tensors = _first_tensors(recipe, shape, start)
    optimiser = Optimiser(tensors, recipe)
    run = _Run(recipe, folder / f"{recipe.name}.state.safetensors")
    if resume:
        run.restore(tensors, optimiser)
    decoder = Decoder(shape, weights_of(shape, tensors))
    last = recipe.steps if steps is None else min(steps, recipe.steps)
    began = time.monotonic() - run.elapsed_s
    while (step := len(run.losses)) < last:
        value = loss(decoder, recipe, step)
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
        return None
    run.write_log(folder / f"{recipe.name}.log.csv")
    manifest = write_checkpoint(folder, tensors, _described(recipe, shape, run.losses))
    run.state.unlink()
    return manifest


def _first_tensors(recipe: Recipe, shape: PassShape, start: Path | None) -> dict[str, torch.Tensor]:
    """Leaves that gradients flow to: of the checkpoint to start from, or random ones."""
    if start is None:
        weights = random_weights(shape, normal(torch.float32, "cpu", recipe.seed))
        tensors = named_tensors(weights, tied=shape.tied)
    else:
        checkpoint = read_checkpoint(start)
        if checkpoint.manifest.shape != shape:
            what = f"{start}: {_difference(checkpoint.manifest.shape, shape)}"
            raise CheckpointError(what)
        tensors = checkpoint_tensors(checkpoint)
    return {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}


def _difference(found: PassShape, asked: PassShape) -> str:
    """The first field in which the architecture *found* is not the one *asked* for."""
    field = next(f.name for f in fields(asked) if getattr(found, f.name) != getattr(asked, f.name))
    return f"its {field} is {getattr(found, field)}, the recipe trains {getattr(asked, field)}"


@dataclass
class _Run:
    """How far a run is, and the file that says so."""

    recipe: Recipe
    state: Path
    losses: list[float]
    elapsed_s: float

    def __init__(self, recipe: Recipe, state: Path) -> None:
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


def _described(recipe: Recipe, shape: PassShape, losses: list[float]) -> dict[str, Any]:
    """The manifest but for the hash."""
    last = losses[-max(1, len(losses) // LAST_PART) :]
    return {
        "name": recipe.name,
        "description": recipe.description.strip(),
        "shape": shape,
        "context_tokens": CONTEXT_TOKENS,
        "block_tokens": 1 if recipe.objective == "next-token" else recipe.block_tokens,
        "prompt": "causal" if recipe.objective == "next-token" else recipe.prompt,
        "mask_token": MASK,
        "end_token": END,
        "recipe": asdict(recipe),
        "software": {"python": platform.python_version(), "torch": torch.__version__},
        "final_loss": round(sum(last) / len(last), 5),
    }
