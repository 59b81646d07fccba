"""The folder that recipes are trained into: what is there already, what a run starts from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint_manifest
from kernels_ref.drafting.checkpoint import made_manifest
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.drafters import target_of
from kernels_ref.training.learner import TrainingError
from kernels_ref.training.reading import AnyRecipe

SUFFIXES = (".yaml", ".safetensors", ".log.csv", ".state.safetensors")
"""Manifest, weights, losses, and the state of a run that has not ended."""


def is_trained(recipe: AnyRecipe, folder: Path) -> bool:
    """Whether the checkpoint of *recipe* lies in *folder*.

    Raises TrainingError where one of its name is of another recipe, CheckpointError where it
    cannot be read.
    """
    path = folder / f"{recipe.name}.yaml"
    if not path.exists():
        return False
    there, asked = dict(made_manifest(path).recipe), _as_stored(recipe)
    if there != asked:
        changed = ", ".join(n for n, value in asked.items() if there.get(n, ...) != value)
        what = (
            f"{path}: trained by another recipe, other {changed or 'fields'}; --fresh begins anew"
        )
        raise TrainingError(what)
    return True


def check_empty(recipes: Sequence[AnyRecipe], folder: Path) -> None:
    """Raise TrainingError where a checkpoint or a state would be overwritten."""
    for recipe in recipes:
        state = folder / f"{recipe.name}.state.safetensors"
        if state.exists():
            what = f"{state}: a run that has not ended; --resume goes on, --fresh begins anew"
            raise TrainingError(what)
        manifest = folder / f"{recipe.name}.yaml"
        if manifest.exists():
            what = f"{manifest}: is there already; --resume keeps it, --fresh begins anew"
            raise TrainingError(what)


def forget(recipes: Sequence[AnyRecipe], folder: Path) -> None:
    """Remove all that runs of *recipes* have left in *folder*."""
    for recipe in recipes:
        for suffix in SUFFIXES:
            (folder / f"{recipe.name}{suffix}").unlink(missing_ok=True)


def start_of(recipe: AnyRecipe, folder: Path) -> Path | None:
    """The manifest that *recipe* starts from: in *folder*, else the shipped one.

    None for random weights; raises TrainingError where there is neither.
    """
    if recipe.start is None:
        return None
    possible = [place / f"{recipe.start}.yaml" for place in (folder, CHECKPOINTS)]
    found = next((path for path in possible if path.is_file()), None)
    if found is None:
        what = f"{possible[0]}: not found, and none of that name is shipped; train it first"
        raise TrainingError(what)
    return found


def check_start(recipe: AnyRecipe, folder: Path, start: Path | None) -> None:
    """Raise TrainingError where *recipe* starts from what it writes, CheckpointError for no start.

    Or for one that it cannot start from: a drafter is no model, and its target no block model.

    For before anything is removed.
    """
    if start is None:
        return
    if start.resolve() == (folder / f"{recipe.name}.yaml").resolve():
        what = f"{start}: is what {recipe.name} writes; start from another checkpoint"
        raise TrainingError(what)
    if isinstance(recipe, DraftRecipe):
        target_of(recipe, start)
    else:
        read_checkpoint_manifest(start)


def _as_stored(recipe: AnyRecipe) -> dict[str, Any]:
    """The recipe as a manifest holds it, without tuples."""
    plain: dict[str, Any] = TypeAdapter(type(recipe)).dump_python(recipe, mode="json")
    return plain
