"""Runs of drafters: where they start, what they write, and that stopping changes no byte."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.checkpoint import CheckpointError, read_checkpoint_manifest
from kernels_ref.drafting.checkpoint import DrafterManifest, made_manifest, read_drafter
from kernels_ref.drafting.reading import drafted_model
from kernels_ref.training import eagle3, run
from kernels_ref.training.draft_recipe import BlockStage, DraftObjective, LossStage
from kernels_ref.training.folder import check_empty, is_trained, start_of
from kernels_ref.training.learner import TrainingError
from kernels_ref.training.learners import learner_of
from kernels_ref.training.run import LogLine, logged_losses, train
from tests.kernels_ref.drafting.pairs import (
    HIDDEN,
    SHAPE,
    TAPPED,
    chain,
    drawn_tokens,
    said,
    target,
    written_pair,
    written_target,
)
from tests.kernels_ref.training.small import EXPERTS, exact, tiny, trained
from tests.kernels_ref.training.small_drafters import OBJECTIVES, tiny_draft, with_target

NAME = "tiny-draft"
STAGED: dict[str, Any] = {
    "blocks": (BlockStage((2, 3), 0.5), BlockStage((4,), 1.0)),
    "loss": (LossStage(0.5, consistency=1.0), LossStage(1.0, total_variation=1.0)),
    "rows": 1,
    "layers": 1,
}


@pytest.fixture(autouse=True)
def _little_is_counted_and_often_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state and a report for every second step, and few problems to count tokens in."""
    monkeypatch.setattr(run, "SAVED_EVERY", 2)
    monkeypatch.setattr(run, "LOGGED_EVERY", 1)
    monkeypatch.setattr(eagle3, "COUNTED_PROBLEMS", 30)


def files(folder: Path) -> dict[str, bytes]:
    """All that a recipe left in *folder*."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"{NAME}.*"))}


class KilledError(RuntimeError):
    """The end of a process."""


def die(line: LogLine) -> None:
    """End everything at step 3, which no state has."""
    if line.step == 3:
        raise KilledError


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_resumed_run_gives_the_same_bytes(objective: DraftObjective, tmp_path: Path) -> None:
    """Ended early or killed between states: the files are those of one straight run."""
    recipe = tiny_draft(objective, steps=4, **STAGED)
    start = with_target(tmp_path)
    assert trained(recipe, tmp_path / "straight", start=start)
    expected = files(tmp_path / "straight")
    assert list(expected) == [f"{NAME}.log.csv", f"{NAME}.safetensors", f"{NAME}.yaml"]
    assert not trained(recipe, tmp_path / "ended", start=start, steps=1)
    with pytest.raises(KilledError):
        trained(recipe, tmp_path / "killed", start=start, report=die)
    for way in ("ended", "killed"):
        assert list(files(tmp_path / way)) == [f"{NAME}.state.safetensors"]
        with pytest.raises(TrainingError, match="a run that has not ended"):
            check_empty([recipe], tmp_path / way)
        assert trained(recipe, tmp_path / way, start=start, resume=True)
        assert files(tmp_path / way) == expected, way


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_a_run_writes(objective: DraftObjective, tmp_path: Path) -> None:
    """A drafter that says its target, sizes, largest block and recipe, and that can be asked."""
    recipe = tiny_draft(objective, steps=2, **STAGED)
    start = with_target(tmp_path)
    trained(recipe, tmp_path, start=start)
    path = tmp_path / f"{NAME}.yaml"
    found = read_drafter(path)
    manifest, of_target = found.manifest, read_checkpoint_manifest(start)
    assert (manifest.name, manifest.drafter, manifest.block_tokens) == (NAME, objective, 4)
    assert (manifest.target.name, manifest.target.sha256) == ("target", of_target.sha256)
    assert set(manifest.software) == {"python", "torch"}
    losses = logged_losses(tmp_path / f"{NAME}.log.csv")
    assert len(losses) == 2
    assert manifest.final_loss == pytest.approx(losses[-1], abs=2e-5)
    if objective.endswith("adapters"):
        assert dict(manifest.shape) == {"rank": 3, "alpha": 6.0, "parts": list_of_parts()}
        assert all(".adapters." in name for name in found.tensors)
    else:
        assert (manifest.shape["hidden"], manifest.shape["tapped"]) == (HIDDEN, [*TAPPED])
        assert manifest.shape["layer"]["count"] == 1
        assert ("draft_to_target" in found.tensors) == (objective == "eagle3")
    model = drafted_model(path).model
    assert model.facts.block_tokens == 4
    (answer,) = said(model, [chain("prefill", 0, drawn_tokens(4))], model.new_cache(1, 8))
    assert answer.logits[:, 1:].isfinite().all()


def list_of_parts() -> list[str]:
    """All projections that adapters may be on."""
    return ["qkv", "output", "gate_up", "down"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_checkpoint_of_the_very_recipe_is_trained(
    objective: DraftObjective, tmp_path: Path
) -> None:
    """Stages, tuples and adapters are kept in a way in which they are found equal again."""
    recipe = tiny_draft(objective, steps=1, **STAGED)
    assert not is_trained(recipe, tmp_path)
    trained(recipe, tmp_path, start=with_target(tmp_path))
    assert is_trained(recipe, tmp_path)
    others: list[tuple[dict[str, Any], str]] = [
        ({"loss": (LossStage(0.5, consistency=1.0), LossStage())}, "loss"),
        ({"blocks": (BlockStage((2,)),)}, "blocks"),
        ({"tapped": (1, 2), "decay": 0.5}, "decay, tapped"),
    ]
    for changes, named in others:
        with pytest.raises(TrainingError, match=f"other {named}; --fresh begins anew"):
            is_trained(tiny_draft(objective, steps=1, **STAGED | changes), tmp_path)
    # A model's recipe of the same name is another one too.
    with pytest.raises(TrainingError, match="trained by another recipe"):
        is_trained(tiny(name=NAME), tmp_path)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_target_stays_as_it_is(objective: DraftObjective, tmp_path: Path) -> None:
    """Neither its file nor its weights in memory are touched by a run."""
    start = with_target(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("target.*")}
    trained(tiny_draft(objective, steps=2, **STAGED), tmp_path, start=start)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("target.*")} == before


def test_adapters_begin_as_the_target(tmp_path: Path) -> None:
    """What they would draft at first is what the target says, but for the noise that it reads."""
    recipe = tiny_draft("noise-adapters", steps=1)
    learner = learner_of(recipe, with_target(tmp_path))
    assert all(not t.any() for n, t in learner.tensors.items() if ".ups." in n)
    loss = learner.loss(0)
    loss.backward()
    # No gradient flows to a down part through an up part of zeros.
    for name, tensor in learner.tensors.items():
        assert tensor.grad is not None
        assert bool(tensor.grad.any()) == (".ups." in name), name


def starts(folder: Path) -> dict[str, Path]:
    """Manifests that no drafter starts from, by what is wrong with them."""
    kinds: dict[str, dict[str, Any]] = {
        "block": {"name": "block", "block_tokens": 4, "prompt": "block-causal"},
        "canvas": {"name": "canvas", "block_tokens": 4},
        "prompt": {"name": "prompt", "prompt": "prefix-full"},
    }
    for fields in kinds.values():
        written_target(folder, target(), **fields)
    written_pair(folder, "dflash")
    return {name: folder / f"{name}.yaml" for name in (*kinds, "drafter", "nowhere")}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_starts_that_are_no_target(objective: DraftObjective, tmp_path: Path) -> None:
    """Models that denoise blocks, drafters, and nothing at all: the file and why."""
    recipe, wrong = tiny_draft(objective), starts(tmp_path)
    for name in ("block", "canvas", "prompt"):
        with pytest.raises(CheckpointError, match=rf"{name}\.yaml: .*denoises blocks"):
            learner_of(recipe, wrong[name])
    with pytest.raises(CheckpointError, match=r"drafter\.yaml: is a drafter"):
        learner_of(recipe, wrong["drafter"])
    with pytest.raises(CheckpointError, match=r"nowhere\.yaml: cannot be read"):
        learner_of(recipe, wrong["nowhere"])
    with pytest.raises(CheckpointError, match="tiny-draft: a drafter has a target"):
        learner_of(recipe, None)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_layers_that_the_target_has_not(objective: DraftObjective, tmp_path: Path) -> None:
    """Drafters of their own tap layers 1 to 3 of this one; adapters tap none."""
    start, recipe = with_target(tmp_path), tiny_draft(objective, tapped=(1, 4))
    if objective.endswith("adapters"):
        learner_of(recipe, start)
        return
    with pytest.raises(CheckpointError, match="tiny-draft: tapped layers are 1 to 3, got 4"):
        learner_of(recipe, start)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_targets_with_experts(objective: DraftObjective, tmp_path: Path) -> None:
    """Adapters are refused; drafters of their own have experts as their target has."""
    written_target(tmp_path, exact(EXPERTS))
    start = tmp_path / "target.yaml"
    recipe = tiny_draft(objective, steps=1, tapped=(1, 2), **STAGED)
    if objective.endswith("adapters"):
        with pytest.raises(CheckpointError, match=r"target\.yaml: .*dense .*has experts"):
            learner_of(recipe, start)
        return
    assert trained(recipe, tmp_path, start=start)
    made = made_manifest(tmp_path / f"{NAME}.yaml")
    assert isinstance(made, DrafterManifest)
    assert made.shape["layer"]["experts"]["count"] == 4
    assert drafted_model(tmp_path / f"{NAME}.yaml").model.facts.block_tokens == 4


def test_a_start_is_found_by_name(tmp_path: Path) -> None:
    """In the folder first; a drafter's recipe always has one."""
    recipe = tiny_draft("eagle3")
    with pytest.raises(TrainingError, match=r"target\.yaml: not found, .*train it first"):
        start_of(recipe, tmp_path)
    assert start_of(recipe, with_target(tmp_path).parent) == tmp_path / "target.yaml"


def test_a_state_of_another_recipe_is_refused(tmp_path: Path) -> None:
    """Any part of it may differ, also one inside a stage."""
    start = with_target(tmp_path)
    trained(tiny_draft("dflash", **STAGED), tmp_path, start=start, steps=1)
    loss = (LossStage(0.5, consistency=1.5), LossStage(1.0, total_variation=1.0))
    for changes in ({"loss": loss}, {"seed": 5}, {"layers": 2}):
        other = tiny_draft("dflash", **STAGED | changes)
        with pytest.raises(TrainingError, match="of another recipe"):
            trained(other, tmp_path, start=start, resume=True)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_learns(objective: DraftObjective, tmp_path: Path) -> None:
    """The drafter comes nearer to its target: how far it was off at first falls by a tenth."""
    consistency = (LossStage(consistency=1.0),)
    recipe = tiny_draft(objective, **STAGED | {"steps": 16, "loss": consistency})
    learner = learner_of(recipe, with_target(tmp_path))
    before = float(learner.loss(0).detach())
    train(recipe, learner, folder=tmp_path)
    assert float(learner.loss(0).detach()) < 0.9 * before


def test_the_shape_of_the_target_is_the_drafters(tmp_path: Path) -> None:
    """EAGLE-3 has one layer like the target's, DFlash as many as asked for, both as wide."""
    start = with_target(tmp_path)
    expected: dict[DraftObjective, int] = {"eagle3": 1, "dflash": 3}
    for objective, layers in expected.items():
        tensors = learner_of(tiny_draft(objective, layers=3), start).tensors
        norms = [name for name in tensors if name.endswith("ffn_norm")]
        assert len(norms) == layers
        (layer,) = SHAPE.layers
        first = "layer" if objective == "eagle3" else "layers.0"
        width = 2 * HIDDEN if objective == "eagle3" else HIDDEN
        assert list(tensors[f"{first}.qkv.weight"].shape) == [sum(layer.projected_columns), width]
        assert tensors["fuse"].shape == (HIDDEN, len(TAPPED) * HIDDEN)
        assert all(tensor.dtype == torch.float32 for tensor in tensors.values())
