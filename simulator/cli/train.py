"""`blockcast train`: the reference models, from generated problems."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kernels_ref.training.reading import AnyRecipe

ALL = "all"
MOST_THREADS = 1024
"""More than any machine has cores; far beyond it torch itself gives up."""
SEEDS = 2**63
"""Torch takes no larger one."""


@click.command()
@click.argument("recipe")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder for it; here when absent.",
)
@click.option("--start", type=click.Path(path_type=Path), help="Manifest to start from instead.")
@click.option("--steps", type=int, help="Instead of the recipe's.")
@click.option("--seed", type=int, help="Instead of the recipe's.")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Of the CPU.")
@click.option("--resume", is_flag=True, help="Go on with what an interrupted run left.")
@click.option("--fresh", is_flag=True, help="Forget what is there of it.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw losses, .svg or .png.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(  # noqa: PLR0913 (one argument per option)
    *,
    recipe: str,
    out: Path,
    start: Path | None,
    steps: int | None,
    seed: int | None,
    threads: int | None,
    resume: bool,
    fresh: bool,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Train a reference model by RECIPE: a shipped one, a YAML file, or all shipped ones in order.

    A recipe starts from the checkpoint of its `start` in the folder, else from the shipped one.
    Checkpoint, manifest and the losses are named after the recipe. Equal recipes give equal bytes
    on one machine with one number of threads, interrupted and resumed or not. Needs torch.
    """
    import json

    from simulator.torch_extra import need_torch

    if resume and fresh:
        message = "--resume goes on and --fresh begins anew: give one of them"
        raise click.UsageError(message)
    _check(recipe, out, start=start, steps=steps, seed=seed)
    _check_figure(figure)
    need_torch("train")
    from kernels_ref.training.run import use_threads
    from reports.training_text import print_training

    if threads is not None:
        use_threads(threads)
    recipes = _changed(_recipes(recipe), steps=steps, seed=seed)
    with _told_errors():
        done = _trained(recipes, out, start=start, resume=resume, fresh=fresh)
        if figure is not None:
            _draw(recipes, out, figure)
    answer = {"checkpoints": done, "figure": None if figure is None else str(figure)}
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_training(answer)


def _check(
    recipe: str, out: Path, *, start: Path | None, steps: int | None, seed: int | None
) -> None:
    """Raise DocumentError for the first option that no recipe could take."""
    from simulator.documents import DocumentError, Mistake

    if out.exists() and not out.is_dir():
        raise DocumentError(str(out), [Mistake("", "is a file; --out needs a folder")])
    if start is not None and recipe == ALL:
        what = "one recipe can start elsewhere; all of them start from one another"
        raise DocumentError("--start", [Mistake("", what)])
    if steps is not None and steps < 1:
        raise DocumentError("--steps", [Mistake("", f"is at least 1, got {steps}")])
    if seed is not None and not 0 <= seed < SEEDS:
        raise DocumentError("--seed", [Mistake("", f"is from 0 to 2^63 - 1, got {seed}")])


def _check_figure(figure: Path | None) -> None:
    from reports.rendering import FORMATS
    from simulator.documents import DocumentError, Mistake

    if figure is not None and figure.suffix not in FORMATS:
        what = f"the figure is {' or '.join(FORMATS)}; name it so"
        raise DocumentError(str(figure), [Mistake("", what)])
    # Said before hours of training, not behind them.
    if figure is not None and (figure.is_dir() or not figure.parent.is_dir()):
        what = "the figure is a file in a folder that there is"
        raise DocumentError(str(figure), [Mistake("", what)])


def _recipes(name: str) -> "list[AnyRecipe]":
    """What *name* asks for: all recipes, a shipped one, or the one in a YAML file."""
    from kernels_ref.training.reading import (
        RecipeError,
        in_order,
        recipe,
        recipe_names,
        recipe_schema,
    )
    from simulator.documents import DocumentError, Mistake, known, load, read_mapping

    if name == ALL:
        return in_order()
    if name in recipe_names():
        return [recipe(name)]
    if name.endswith(".yaml"):
        try:
            schema = recipe_schema(read_mapping(Path(name)))
        except RecipeError as error:
            raise DocumentError(name, [Mistake("", str(error))]) from error
        return [load(schema, Path(name))]
    raise DocumentError("RECIPE", [Mistake("", known(name, [*recipe_names(), ALL], "recipe"))])


def _changed(
    recipes: "list[AnyRecipe]", *, steps: int | None, seed: int | None
) -> "list[AnyRecipe]":
    import dataclasses

    given = {"steps": steps, "seed": seed}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return [dataclasses.replace(recipe, **changes) for recipe in recipes]


def _trained(
    recipes: "Sequence[AnyRecipe]", out: Path, *, start: Path | None, resume: bool, fresh: bool
) -> list[dict[str, Any]]:
    """What each recipe came to; those that --resume finds done are left as they are."""
    from kernels_ref.training.folder import check_empty, check_start, forget, is_trained, start_of

    if not resume and not fresh:
        check_empty(recipes, out)
    check_start(recipes[0], out, start or start_of(recipes[0], out))
    if fresh:
        forget(recipes, out)
    done = []
    for recipe in recipes:
        if resume and is_trained(recipe, out):
            done.append(_answer(recipe, out, None))
            continue
        begin = start or start_of(recipe, out)
        done.append(_answer(recipe, out, _run(recipe, out, begin, resume=resume)))
    return done


def _run(recipe: "AnyRecipe", out: Path, start: Path | None, *, resume: bool) -> float:
    """Train one recipe; the seconds that it took, those before an interruption included."""
    from kernels_ref.training.learners import learner_of
    from kernels_ref.training.run import LogLine, train
    from simulator.documents import DocumentError, Mistake
    from simulator.interrupts import interrupts
    from simulator.progress import share_bar

    elapsed_s = 0.0
    with share_bar(f"training {recipe.name}") as progress, interrupts() as interrupted:

        def report(line: LogLine) -> None:
            nonlocal elapsed_s
            elapsed_s = line.elapsed_s
            progress(line.step / recipe.steps, f"loss {line.loss:.3f}")

        learner = learner_of(recipe, start)
        done = train(recipe, learner, folder=out, resume=resume, report=report, stop=interrupted)
    if not done:
        what = f"interrupted; the state of {recipe.name} is in {out}, --resume goes on from it"
        raise DocumentError("train", [Mistake("", what)])
    return elapsed_s


@contextmanager
def _told_errors() -> Iterator[None]:
    """What may be wrong with folders, checkpoints and states, as DocumentError."""
    from safetensors import SafetensorError

    from kernels_ref.checkpoint import CheckpointError
    from kernels_ref.training.learner import TrainingError
    from simulator.documents import DocumentError, Mistake

    try:
        yield
    except (CheckpointError, TrainingError, SafetensorError, OSError) as error:
        raise DocumentError("train", [Mistake("", str(error))]) from error
    except KeyboardInterrupt as stop:
        what = "interrupted within a step; --resume goes on from the last state, if there is one"
        raise DocumentError("train", [Mistake("", what)]) from stop


def _answer(recipe: "AnyRecipe", out: Path, elapsed_s: float | None) -> dict[str, Any]:
    """What is told about a checkpoint; it was there already if no time was spent."""
    from kernels_ref.drafting.checkpoint import made_manifest

    path = out / f"{recipe.name}.yaml"
    manifest = made_manifest(path)
    return {
        "name": recipe.name,
        "steps": recipe.steps,
        "final_loss": manifest.final_loss,
        "sha256": manifest.sha256,
        "elapsed_s": elapsed_s,
        "checkpoint": str(path),
    }


def _draw(recipes: "Sequence[AnyRecipe]", out: Path, figure: Path) -> None:
    """Write the figure of the logs that lie in *out*."""
    from kernels_ref.drafting.checkpoint import made_manifest
    from kernels_ref.training.run import logged_losses
    from reports.training import draw

    curves = [
        {
            "name": recipe.name,
            "losses": logged_losses(out / f"{recipe.name}.log.csv"),
            "learning_rate_shares": [recipe.learning_rate_share(i) for i in range(recipe.steps)],
            "final_loss": made_manifest(out / f"{recipe.name}.yaml").final_loss,
        }
        for recipe in recipes
    ]
    draw(curves, figure)
