"""`blockcast train` of drafters: beside a target that stays as it is."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.command import Answer, call

pytest.importorskip("torch")

import torch

from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint_manifest
from kernels_ref.drafting.checkpoint import read_drafter
from kernels_ref.drafting.reading import drafted_model
from kernels_ref.training import eagle3, folder, reading
from kernels_ref.training.draft_recipe import DraftObjective, DraftRecipe
from kernels_ref.training.recipe import RECIPES
from tests.kernels_ref.drafting.pairs import chain, drawn_tokens, said, written_target
from tests.kernels_ref.training.small import EXPERTS, exact, tiny, trained
from tests.kernels_ref.training.small_drafters import tiny_draft, with_target


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are slower on several, and few problems are enough to count tokens in."""
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(eagle3, "COUNTED_PROBLEMS", 30)


@pytest.fixture
def single_rows(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The shipped recipes of drafters, with one problem a step."""
    recipes = tmp_path_factory.mktemp("recipes")
    for path in RECIPES.glob("*.yaml"):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        text = yaml.safe_dump(document | {"rows": 1})
        (recipes / path.name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(reading, "RECIPES", recipes)


def written(recipe: DraftRecipe, **changes: Any) -> str:
    """The recipe as a file; its path."""
    document = json.loads(json.dumps(dataclasses.asdict(recipe))) | changes
    path = Path(f"{document['name']}-recipe.yaml")
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def told(answer: Answer) -> dict[str, Any]:
    """The only checkpoint of a JSON answer."""
    assert answer.code == 0, answer.err
    (found,) = json.loads(answer.out)["checkpoints"]
    return dict(found)


def refused(answer: Answer, *words: str) -> None:
    """Exit 1, the words on standard error, nothing on standard output and no traceback."""
    assert answer.code == 1, answer
    assert answer.err.strip().startswith("blockcast: ")
    assert answer.out == ""
    for word in words:
        assert word in " ".join(answer.err.split())


def files(place: Path = Path()) -> dict[str, bytes]:
    """All that lies in a folder."""
    return {path.name: path.read_bytes() for path in sorted(place.iterdir()) if path.is_file()}


@pytest.mark.usefixtures("single_rows")
@pytest.mark.parametrize("name", ["uno", "eagle3"])
def test_a_shipped_recipe(name: str) -> None:
    """Two steps beside the shipped target make a drafter, a log and a curve; kept when resumed."""
    call_it = ("train", name, "--steps", 2, "--threads", 1)
    answer = call(*call_it, "--figure", "a.svg")
    assert answer.code == 0, answer.err
    assert list(files()) == ["a.svg", f"{name}.log.csv", f"{name}.safetensors", f"{name}.yaml"]
    found = read_drafter(Path(f"{name}.yaml")).manifest
    shipped = read_checkpoint_manifest(CHECKPOINTS / "autoregressive.yaml")
    assert (found.target.name, found.target.sha256) == ("autoregressive", shipped.sha256)
    assert (found.recipe["steps"], found.recipe["rows"]) == (2, 1)
    for word in (name, f"{found.final_loss:.4f}", found.sha256[:12], "figure: a.svg"):
        assert word in answer.out
    with Path(f"{name}.log.csv").open(encoding="utf-8") as file:
        losses = [float(row["loss_nats_per_token"]) for row in csv.DictReader(file)]
    assert len(losses) == 2
    text = ET.fromstring(Path("a.svg").read_bytes()).find("{http://www.w3.org/2000/svg}desc")  # noqa: S314 (our own)
    assert text is not None
    assert f"{name}: 2 steps, loss {losses[0]:.3g} at first" in str(text.text)
    before = files()
    kept = told(call(*call_it, "--resume", "--json"))
    assert (kept["elapsed_s"], kept["sha256"]) == (None, found.sha256)
    assert "there already" in call(*call_it, "--resume").out
    refused(call(*call_it), f"{name}.yaml: is there already; --resume keeps it")
    refused(call(*call_it, "--seed", 5, "--resume"), "trained by another recipe, other seed")
    assert files() == before


def test_a_recipe_of_ones_own() -> None:
    """A file, beside a target of one's own in the folder; what it makes drafts."""
    with_target(Path())
    objectives: tuple[DraftObjective, ...] = ("dflash", "mask-adapters")
    for objective in objectives:
        recipe = tiny_draft(objective, steps=2, name=objective)
        found = told(call("train", written(recipe), "--json"))
        assert found["checkpoint"] == f"{objective}.yaml"
        model = drafted_model(Path(f"{objective}.yaml")).model
        (answer,) = said(model, [chain("prefill", 0, drawn_tokens(4))], model.new_cache(1, 8))
        assert answer.logits[:, 1:].isfinite().all()


def test_a_step_at_a_time_is_the_same() -> None:
    """An early end and a resumed run: the bytes of a straight one."""
    start = with_target(Path())
    recipe = tiny_draft("dflash", steps=3, rows=1)
    file = written(recipe)
    assert not trained(recipe, Path("out"), start=start, steps=1)
    refused(
        call("train", file, "-o", "out", "--start", start), "a run that has not ended; --resume"
    )
    for place, options in (("out", ("--resume",)), ("straight", ())):
        told(call("train", file, "-o", place, "--start", start, "--json", *options))
    assert files(Path("out")) == files(Path("straight"))


def test_starts_that_are_no_target() -> None:
    """Block models, drafters, experts for adapters, nothing: told, and --fresh removes nothing."""
    start = with_target(Path())
    recipe = written(tiny_draft("dflash", steps=1, rows=1))
    told(call("train", recipe, "--json"))
    trained(tiny(name="blocks", steps=1), Path())
    written_target(Path(), exact(EXPERTS), name="experts")
    before = files()
    serial = CHECKPOINTS / "serial.yaml"
    refused(call("train", recipe, "--fresh", "--start", serial), "serial.yaml: ", "denoises blocks")
    refused(call("train", recipe, "--fresh", "--start", "blocks.yaml"), "denoises blocks")
    refused(
        call("train", recipe, "--fresh", "--start", recipe), "not a checkpoint manifest", recipe
    )
    itself = call("train", recipe, "--fresh", "--start", "tiny-draft.yaml")
    refused(itself, "tiny-draft.yaml: is what tiny-draft writes")
    other = written(tiny_draft("noise-adapters", steps=1, name="other"))
    before[other] = Path(other).read_bytes()
    refused(call("train", other, "--start", "tiny-draft.yaml"), "is a drafter")
    refused(call("train", other, "--start", "experts.yaml"), "experts.yaml: ", "has experts")
    refused(call("train", other, "--start", "nowhere.yaml"), "nowhere.yaml: cannot be read")
    assert files() == before
    assert start.exists()


def test_no_target_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the folder nor shipped."""
    monkeypatch.setattr(folder, "CHECKPOINTS", Path("nowhere"))
    file = written(tiny_draft("eagle3"))
    refused(call("train", file, "-o", "out"), "out/target.yaml: not found", "train it first")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tapped": [1, 9]}, ("tiny-draft: tapped layers are 1 to 3, got 9",)),
        ({"tapped": [3, 1]}, ("tapped: layers rise, got 3, 1",)),
        ({"tapped": [3]}, ("EAGLE-3 fuses 2 layers or more, got 1",)),
        ({"blocks": [{"blocks": [1]}]}, ("blocks.0.blocks.0", "greater than or equal to 2")),
        ({"loss": [{"until": 0.5}]}, ("loss: until rises to 1, got 0.5",)),
        ({"adapters": {"rank": 0}}, ("adapters.rank", "greater than or equal to 1")),
        ({"tapt": [1, 2]}, ("no field 'tapt'; did you mean", "tapped")),
        ({"objective": "eagle"}, ("objective",)),
    ],
)
def test_a_recipe_file_with_mistakes(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    """The file or recipe, the field and the rule; nothing is made."""
    with_target(Path())
    file = written(tiny_draft("eagle3"), **changes)
    before = files()
    refused(call("train", file), *words)
    assert files() == before
