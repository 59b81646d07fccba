"""Recipes: the shipped ones, their order, their learning rates, and files that are none."""

from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

pytest.importorskip("torch")

from kernels_ref.training import reading
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.reading import RecipeError, in_order, recipe, recipe_names
from kernels_ref.training.recipe import Recipe
from tests.kernels_ref.training.small import tiny

SMALLEST = {"name": "mine", "description": "Mine.", "steps": 3, "objective": "next-token"}


def test_every_shipped_recipe_can_be_read() -> None:
    """By the name of its file; they are models of one architecture and drafters, each of a use."""
    assert set(recipe_names()) >= {"autoregressive", "serial", "self-correcting", "multi-block"}
    for name in recipe_names():
        found = recipe(name)
        assert found.name == name
        assert found.description
        assert isinstance(found, DraftRecipe) or not found.experts


def test_shipped_recipes_come_behind_what_they_start_from() -> None:
    """Every one once; no two see the same problems but variants, which are to be compared."""
    order = in_order()
    assert sorted(each.name for each in order) == recipe_names()
    seen: set[str | None] = {None}
    for each in order:
        assert each.start in seen
        seen.add(each.name)
    seeds = {each.seed: variants_of(each.name) for each in order}
    assert len(seeds) == len(set(seeds.values()))
    assert all(seeds[each.seed] == variants_of(each.name) for each in order)


def variants_of(name: str) -> str:
    """What a recipe is compared with: variants have the name of one that is called short."""
    short = f"{name.split('-', maxsplit=1)[0]}-short"
    is_variant = "-" in name and short in recipe_names()
    return short if is_variant else name


def test_an_unknown_name_tells_the_known_ones() -> None:
    """The rule, the names there are, and the one that was given."""
    with pytest.raises(RecipeError, match=r"autoregressive, .*, got 'serail'"):
        recipe("serail")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recipes to write into."""
    monkeypatch.setattr(reading, "RECIPES", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name: [", "not YAML"),
        ("", "not a recipe"),
        (yaml.safe_dump(SMALLEST | {"steps": 0}), "steps: .*greater than 0"),
        (yaml.safe_dump(SMALLEST | {"step": 1}), "step: Unexpected"),
        (yaml.safe_dump({"name": "mine"}), "description: .*; steps: .*; objective"),
        (yaml.safe_dump(SMALLEST | {"name": "other"}), "the name of its file, got 'other'"),
    ],
)
def test_a_file_that_is_no_recipe(written: Path, text: str, what: str) -> None:
    """The file and every mistake in it."""
    (written / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=what) as refused:
        recipe("mine")
    assert str(written / "mine.yaml") in str(refused.value)


@pytest.mark.parametrize("starts", [{"a": "b", "b": "a"}, {"a": "nowhere"}, {"a": "a"}])
def test_recipes_that_start_from_nothing_that_is_there(
    written: Path, starts: dict[str, str]
) -> None:
    """Circles and unknown starts are told, not waited for."""
    for name, start in starts.items():
        text = yaml.safe_dump(SMALLEST | {"name": name, "start": start})
        (written / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=f"got .*a from {starts['a']}"):
        in_order()


@pytest.mark.parametrize("name", ["", "../mine", "a/b", ".hidden", "Mine", "a b", "a\n"])
def test_names_are_one_part_of_a_path(name: str) -> None:
    """Files are named after recipes, so a name cannot lead out of a folder."""
    with pytest.raises(ValidationError, match="name"):
        TypeAdapter(Recipe).validate_python(SMALLEST | {"name": name})


def test_the_learning_rate_warms_up_holds_and_falls() -> None:
    """A fifth at each of five steps, then one up to 0.4 of 50, then a line to zero at the end."""
    made = tiny(steps=50, warm_up_steps=5, hold_share=0.4)
    shares = [made.learning_rate_share(step) for step in range(50)]
    assert shares[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert shares[5:21] == [1.0] * 16
    assert shares[20:] == pytest.approx([1 - i / 30 for i in range(30)])


def test_a_learning_rate_may_hold_to_the_end_or_only_warm_up() -> None:
    """The ends of what a recipe may say divide by nothing."""
    held = tiny(steps=4, warm_up_steps=0, hold_share=1.0)
    assert [held.learning_rate_share(step) for step in range(4)] == [1.0] * 4
    short = tiny(steps=2, warm_up_steps=4)
    assert [short.learning_rate_share(step) for step in range(2)] == [0.25, 0.5]
