"""Reads recipes: the shipped ones by name, and in the order in which they stand on each other."""

import typing
from collections.abc import Mapping
from typing import Any

from kernels_ref.checked_yaml import chosen_yaml
from kernels_ref.training.draft_recipe import DraftObjective, DraftRecipe
from kernels_ref.training.recipe import RECIPES, Objective, Recipe

AnyRecipe = Recipe | DraftRecipe


class RecipeError(ValueError):
    """A recipe that is not there or not what it should be."""


def recipe_names() -> list[str]:
    """Names of the shipped recipes, in alphabetical order."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def recipe_schema(document: Mapping[str, Any]) -> type[Recipe] | type[DraftRecipe]:
    """What a recipe must be that has the fields of *document*: of a drafter, or of a model.

    Raises RecipeError for an objective that neither has.
    """
    asked = document.get("objective")
    known = (*typing.get_args(Objective), *typing.get_args(DraftObjective))
    if "objective" in document and asked not in known:
        what = f"objective: is one of {', '.join(known)}, got {asked!r:.60}"
        raise RecipeError(what)
    return DraftRecipe if asked in typing.get_args(DraftObjective) else Recipe


def recipe(name: str) -> AnyRecipe:
    """The shipped recipe called *name*.

    Raises RecipeError that names those there are, or every mistake in the file.
    """
    if name not in recipe_names():
        what = f"a recipe is one of {', '.join(recipe_names())}, got {name!r}"
        raise RecipeError(what)
    path = RECIPES / f"{name}.yaml"
    try:
        found: AnyRecipe = chosen_yaml(recipe_schema, path, "recipe")
    except RecipeError as error:
        what = f"{path}: {error}"
        raise RecipeError(what) from error
    except ValueError as error:
        raise RecipeError(*error.args) from error
    if found.name != name:
        what = f"{path}: a recipe has the name of its file, got {found.name!r}"
        raise RecipeError(what)
    return found


def in_order() -> list[AnyRecipe]:
    """All shipped recipes, each behind the one that it starts from.

    Raises RecipeError where one starts from a recipe that is not shipped, or from itself by others.
    """
    waiting = {name: recipe(name) for name in recipe_names()}
    done: dict[str | None, AnyRecipe] = {}
    while waiting:
        ready = [r for r in waiting.values() if r.start is None or r.start in done]
        if not ready:
            stuck = ", ".join(f"{r.name} from {r.start}" for r in waiting.values())
            what = f"a recipe starts from nothing or from another one, got {stuck}"
            raise RecipeError(what)
        for each in ready:
            done[each.name] = waiting.pop(each.name)
    return list(done.values())
