"""Recipes of drafters: the shipped ones, and every field that none can have."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

pytest.importorskip("torch")

from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint_manifest
from kernels_ref.training import reading
from kernels_ref.training.draft_recipe import BlockStage, DraftRecipe, LossStage
from kernels_ref.training.folder import is_trained
from kernels_ref.training.reading import RecipeError, recipe, recipe_names, recipe_schema
from kernels_ref.training.recipe import Recipe

SMALLEST: dict[str, Any] = {
    "name": "mine",
    "description": "Mine.",
    "steps": 3,
    "start": "autoregressive",
    "objective": "eagle3",
    "loss": [{"cross_entropy": 1.0}],
}
DRAFTERS = [name for name in recipe_names() if isinstance(recipe(name), DraftRecipe)]


def shipped(name: str) -> DraftRecipe:
    """A shipped recipe of a drafter."""
    found = recipe(name)
    assert isinstance(found, DraftRecipe)
    return found


def test_every_kind_of_drafter_has_a_recipe() -> None:
    """At least one each, and variants of Uno's and EAGLE-3's."""
    objectives = [shipped(name).objective for name in DRAFTERS]
    assert set(objectives) == {"noise-adapters", "mask-adapters", "eagle3", "dflash"}
    assert objectives.count("noise-adapters") > 5
    assert objectives.count("eagle3") > 2


@pytest.mark.parametrize("name", DRAFTERS)
def test_shipped_recipes_fit_their_target(name: str) -> None:
    """It is an autoregressive model, and has the layers that are tapped."""
    found = shipped(name)
    target = read_checkpoint_manifest(CHECKPOINTS / f"{found.start}.yaml")
    assert (target.prompt, target.block_tokens) == ("causal", 1)
    assert max(found.tapped) <= len(target.shape.unrolled)
    assert found.draft_vocab <= target.shape.vocab
    for step in range(found.steps):
        stage = found.stage(found.loss, step)
        assert stage.consistency + stage.total_variation + stage.cross_entropy > 0
        assert max(found.stage(found.blocks, step).blocks) <= found.largest_block


@pytest.mark.parametrize("name", [n for n in DRAFTERS if n.startswith("uno-")])
def test_variants_differ_in_what_they_are_named_after(name: str) -> None:
    """From the one they are compared with; parts of a layer have its parameters or fewer."""
    short, found = shipped("uno-short"), shipped(name)
    same = {"name", "description"}
    other = {
        field.name
        for field in dataclasses.fields(found)
        if getattr(found, field.name) != getattr(short, field.name)
    }
    fields = {
        "uno-short": set(),
        "uno-other-text": {"phrasing"},
        "uno-consistency": {"loss"},
        "uno-total-variation": {"loss"},
    }
    assert other - same == fields.get(name, {"adapters"})
    if name in {"uno-attention", "uno-feed-forward"}:
        # Rank and alpha in one ratio, so that only the place differs.
        assert found.adapters.scaling == short.adapters.scaling


def test_parts_of_a_layer_have_as_many_parameters() -> None:
    """Adapters on attention or on the feed-forward alone are as large as on both, by hand."""
    # rank x (in + out) of each projection of the reference architecture.
    attention = 3 * 192 + (192 + 2 * 64) + 192 + 192
    feed_forward = 2 * (192 + 512) + (512 + 192)
    sizes = {
        "uno-short": attention + feed_forward,
        "uno-attention": attention,
        "uno-feed-forward": feed_forward,
    }
    found = {name: shipped(name).adapters.rank * size for name, size in sizes.items()}
    for size in found.values():
        assert size == pytest.approx(found["uno-short"], rel=0.02)


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_checkpoints_are_of_their_recipes(name: str) -> None:
    """Every field that the manifest keeps is the recipe's, stages and adapters too."""
    if not (CHECKPOINTS / f"{name}.yaml").exists():
        pytest.skip("not among the shipped checkpoints")
    assert is_trained(recipe(name), CHECKPOINTS)


def test_a_recipe_is_of_a_drafter_by_its_objective() -> None:
    """The other ones are of models, also those that say nothing."""
    for objective in ("noise-adapters", "mask-adapters", "eagle3", "dflash"):
        assert recipe_schema({"objective": objective}) is DraftRecipe
    for document in ({"objective": "denoise"}, {"objective": "next-token"}, {}):
        assert recipe_schema(document) is Recipe


def test_the_smallest_recipe() -> None:
    """What it does not say: blocks of eight, three layers tapped, adapters of rank 32."""
    found = TypeAdapter(DraftRecipe).validate_python(SMALLEST)
    assert found.loss == (LossStage(until=1.0, cross_entropy=1.0),)
    assert found.blocks == (BlockStage((8,)),)
    assert (found.tapped, found.layers, found.decay, found.draft_vocab) == ((1, 2, 4), 1, 1.0, 80)
    assert (found.adapters.rank, found.adapters.alpha, found.phrasing) == (32, 64.0, None)
    assert found.largest_block == 8


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"loss": [{"until": 0.5}]}, "loss: until rises to 1, got 0.5"),
        ({"loss": [{"until": 1.0}, {"until": 1.0}]}, "loss: until rises to 1, got 1.0, 1.0"),
        ({"loss": [{"until": 0.6}, {"until": 0.4}, {}]}, "until rises to 1, got 0.6, 0.4, 1.0"),
        ({"loss": [{}, {"until": 0.5}]}, "until rises to 1, got 1.0, 0.5"),
        ({"loss": []}, "loss: .*at least 1 item"),
        ({"loss": [{"until": 1.5}]}, "loss.0.until: .*less than or equal to 1"),
        ({"loss": [{"consistency": -1}]}, "loss.0.consistency: .*greater than or equal to 0"),
        ({"loss": [{"consistency": float("nan")}]}, "loss.0.consistency: "),
        ({"loss": [{"entropy": 1}]}, "loss.0.entropy: Unexpected"),
        ({"blocks": [{"until": 0.5, "blocks": [4]}]}, "blocks: until rises to 1, got 0.5"),
        ({"blocks": [{"blocks": [1]}]}, "blocks.0.blocks.0: .*greater than or equal to 2"),
        ({"blocks": [{"blocks": [65]}]}, "blocks.0.blocks.0: .*less than or equal to 64"),
        ({"blocks": [{"blocks": []}]}, "blocks.0.blocks: .*at least 1 item"),
        ({"blocks": []}, "blocks: .*at least 1 item"),
        ({"decay": 0}, "decay: .*greater than 0"),
        ({"decay": 1.1}, "decay: .*less than or equal to 1"),
        ({"adapters": {"rank": 0}}, "adapters.rank: .*greater than or equal to 1"),
        ({"adapters": {"parts": ["head"]}}, "adapters.parts.0: .*'qkv', 'output'"),
        ({"adapters": {"parts": ["qkv", "qkv"]}}, "adapters: .*parts are named once"),
        ({"layers": 0}, "layers: .*greater than 0"),
        ({"tapped": []}, "tapped: .*at least 1 item"),
        ({"tapped": [0, 1]}, "tapped.0: .*greater than 0"),
        ({"tapped": [2, 1]}, "tapped: layers rise, got 2, 1"),
        ({"tapped": [2, 2]}, "tapped: layers rise, got 2, 2"),
        ({"tapped": [2]}, "tapped: EAGLE-3 fuses 2 layers or more, got 1"),
        ({"draft_vocab": 0}, "draft_vocab: .*greater than 0"),
        ({"phrasing": 3}, "phrasing: .*less than 3"),
        ({"phrasing": -1}, "phrasing: .*greater than or equal to 0"),
        ({"start": None}, "start: .*valid string"),
        ({"start": "../there"}, "start: .*pattern"),
        ({"steps": 0}, "steps: .*greater than 0"),
        ({"noise": "mask"}, "noise: Unexpected"),
        ({"objective": "medusa"}, "objective: is one of next-token, .* got 'medusa'"),
    ],
)
def test_a_file_that_is_no_recipe(
    fields: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, the field and the rule."""
    monkeypatch.setattr(reading, "RECIPES", tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SMALLEST | fields), encoding="utf-8")
    with pytest.raises(RecipeError, match=what) as refused:
        recipe("mine")
    assert str(path) in str(refused.value)


def test_a_single_layer_may_be_tapped_by_dflash() -> None:
    """Its features become keys and values, and are never taken for states of its own."""
    fields = SMALLEST | {"objective": "dflash", "tapped": [2]}
    assert TypeAdapter(DraftRecipe).validate_python(fields).tapped == (2,)


@pytest.mark.parametrize("field", ["start", "loss", "objective", "name", "steps"])
def test_a_missing_field(field: str) -> None:
    """It is named."""
    fields = {name: value for name, value in SMALLEST.items() if name != field}
    with pytest.raises(ValidationError, match=f"{field}\n.*equired"):
        TypeAdapter(DraftRecipe).validate_python(fields)
