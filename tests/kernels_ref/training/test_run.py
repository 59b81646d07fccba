"""Runs: what they write, where they start, and that stopping and going on changes no byte."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.checkpoint import CheckpointError, read_checkpoint
from kernels_ref.decoders import policy
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.reference import reference_model
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.named_weights import named_tensors
from kernels_ref.pass_shape import PassShape
from kernels_ref.random_weights import random_weights
from kernels_ref.task.problems import problems
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training import run
from kernels_ref.training.language import shape_of
from kernels_ref.training.learner import TrainingError
from kernels_ref.training.objectives import loss
from kernels_ref.training.run import LogLine, logged_losses
from tests.kernels_ref.training.small import DENSE, EXPERTS, tiny, trained


@pytest.fixture(autouse=True)
def _one_thread_and_often_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """States every second step and a report of each, so that little has to be trained."""
    monkeypatch.setattr(run, "SAVED_EVERY", 2)
    monkeypatch.setattr(run, "LOGGED_EVERY", 1)


def files(folder: Path) -> dict[str, bytes]:
    """All that lies in *folder*."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def stop_behind(steps: int) -> Callable[[], bool]:
    """Says to stop when it is asked for the *steps*th time."""
    asked = iter(range(1, steps + 1))
    return lambda: next(asked) == steps


class KilledError(RuntimeError):
    """The end of a process."""


def die_at(step: int) -> Callable[[LogLine], None]:
    """A report that ends everything at *step*."""

    def report(line: LogLine) -> None:
        if line.step == step:
            raise KilledError

    return report


RECIPES = {
    "mask": tiny(corruption=0.2, self_draft_share=0.5),
    "next token": tiny(objective="next-token"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_resumed_run_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Early ended, told to stop, killed between states: the files are those of one straight run."""
    recipe = RECIPES[name]
    assert trained(recipe, tmp_path / "straight")
    expected = files(tmp_path / "straight")
    assert sorted(expected) == ["tiny.log.csv", "tiny.safetensors", "tiny.yaml"]

    ways: dict[str, dict[str, Any]] = {
        "ended": {"steps": 3},
        "stopped": {"stop": stop_behind(3)},
        "killed": {"report": die_at(5)},
        "killed before any state": {"report": die_at(1)},
    }
    for way, named in ways.items():
        folder = tmp_path / way
        try:
            assert not trained(recipe, folder, **named)
        except KilledError:
            assert way.startswith("killed")
        left = [] if way.endswith("any state") else ["tiny.state.safetensors"]
        assert [path.name for path in folder.glob("*")] == left
        assert trained(recipe, folder, resume=True)
        assert files(folder) == expected, way


def test_a_run_that_is_not_resumed_begins_anew(tmp_path: Path) -> None:
    """A state that is there does not get into it."""
    trained(tiny(), tmp_path / "straight")
    trained(tiny(), tmp_path / "again", steps=4)
    lines: list[LogLine] = []
    trained(tiny(), tmp_path / "again", report=lines.append)
    assert [line.step for line in lines] == [1, 2, 3, 4, 5, 6]
    assert files(tmp_path / "again") == files(tmp_path / "straight")


def test_reports_say_step_loss_rate_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean losses since the line before, and the last step's line whatever its number."""
    monkeypatch.setattr(run, "LOGGED_EVERY", 4)
    lines: list[LogLine] = []
    recipe = tiny(warm_up_steps=8)
    trained(recipe, tmp_path, report=lines.append)
    losses = logged_losses(tmp_path / "tiny.log.csv")
    assert [line.step for line in lines] == [4, 6]
    assert lines[0].loss == pytest.approx(sum(losses[:4]) / 4, abs=1e-5)
    assert lines[1].loss == pytest.approx(sum(losses[4:]) / 2, abs=1e-5)
    assert [line.learning_rate_share for line in lines] == [4 / 8, 6 / 8]
    assert 0 < lines[0].elapsed_s < lines[1].elapsed_s


def test_what_a_run_writes(tmp_path: Path) -> None:
    """A checkpoint that says its recipe and its loss, and a log with a line a step."""
    recipe = tiny(steps=40, prompt="prefix-full", rows=1)
    trained(recipe, tmp_path)
    manifest = read_checkpoint(tmp_path / "tiny.yaml").manifest
    assert dict(manifest.recipe) == vars(recipe)
    assert (manifest.block_tokens, manifest.prompt, manifest.mask_token) == (
        16,
        "prefix-full",
        MASK,
    )
    with (tmp_path / "tiny.log.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["step", "loss_nats_per_token"]
    assert [int(row[0]) for row in rows[1:]] == list(range(1, 41))
    # The mean of the last twentieth, two of forty.
    losses = [float(row[1]) for row in rows[1:]]
    assert manifest.final_loss == pytest.approx(sum(losses[-2:]) / 2, abs=2e-5)


def test_an_autoregressive_checkpoint_says_so(tmp_path: Path) -> None:
    """It has blocks of one token and a causal prompt, whatever its batches were filled up to."""
    trained(tiny(objective="next-token", steps=1), tmp_path)
    manifest = read_checkpoint(tmp_path / "tiny.yaml").manifest
    assert (manifest.block_tokens, manifest.prompt) == (1, "causal")


def test_a_run_starts_from_the_checkpoint(tmp_path: Path) -> None:
    """The first loss is that of the weights in the file, in the half precision it holds."""
    trained(tiny(name="first", objective="next-token", seed=5), tmp_path)
    second = tiny(name="second", start="first", steps=1)
    trained(second, tmp_path, start=tmp_path / "first.yaml")
    expected = float(loss(read_checkpoint(tmp_path / "first.yaml").decoder, second, 0).detach())
    (found,) = logged_losses(tmp_path / "second.log.csv")
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_start_of_another_architecture_is_refused(tmp_path: Path) -> None:
    """The file and what differs; nothing is written."""
    trained(tiny(name="first", steps=1), tmp_path / "a", EXPERTS)
    with pytest.raises(CheckpointError, match=r"first\.yaml: its layers is .*the recipe trains"):
        trained(tiny(), tmp_path / "b", start=tmp_path / "a" / "first.yaml")
    assert not (tmp_path / "b").exists()


def test_a_state_of_another_recipe_is_refused(tmp_path: Path) -> None:
    """Any field of it may differ; the state stays as it is."""
    trained(tiny(), tmp_path, steps=2)
    before = files(tmp_path)
    for other in (tiny(seed=9), tiny(steps=7), tiny(corruption=0.1)):
        with pytest.raises(TrainingError, match=r"tiny\.state\.safetensors: of another recipe"):
            trained(other, tmp_path, resume=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("kept_bytes", [0, 5, 1000, -1])
def test_half_a_state_is_refused(kept_bytes: int, tmp_path: Path) -> None:
    """A truncated file is named, and is no error of the program."""
    trained(tiny(), tmp_path, steps=2)
    state = tmp_path / "tiny.state.safetensors"
    state.write_bytes(state.read_bytes()[:kept_bytes])
    with pytest.raises(TrainingError, match=r"tiny\.state\.safetensors: not a training state"):
        trained(tiny(), tmp_path, resume=True)


@pytest.mark.parametrize(
    "text", ["step,loss\n1,2\n", "step,loss_nats_per_token\n1,much\n", "a\n1\n"]
)
def test_a_file_that_is_no_log(text: str, tmp_path: Path) -> None:
    """The file and what it should have."""
    path = tmp_path / "tiny.log.csv"
    with pytest.raises(TrainingError, match=r"tiny\.log\.csv: cannot be read"):
        logged_losses(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TrainingError, match=r"tiny\.log\.csv: not a log of losses"):
        logged_losses(path)


@pytest.mark.parametrize("shape", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_training_learns(shape: PassShape, tmp_path: Path) -> None:
    """Dense or with experts, the loss of 40 steps falls by a fifth, and what it made decodes."""
    recipe = tiny(
        steps=40, rows=4, experts=shape is EXPERTS, loss_on="masked", objective="denoise", seed=1
    )
    trained(recipe, tmp_path, shape)
    losses = logged_losses(tmp_path / "tiny.log.csv")
    assert sum(losses[-8:]) < sum(losses[:4]) * 2 * 0.8
    model = reference_model(read_checkpoint(tmp_path / "tiny.yaml"))
    prompt = next(problems("held-out", 0)).prompt
    sequence = Sequence(prompt, facts=model.facts, block_tokens=16, output_tokens=32)
    single_block = policy("single-block")
    parameters = single_block.Parameters(tau_mask=0.3)
    decode_batch(model, [sequence], single_block.decode([sequence], parameters))
    last = sequence.record.blocks[-1].retired
    assert last == len(sequence.record.forwards) - 1
    assert not (sequence.output() == MASK).any()


@pytest.mark.parametrize("experts", [False, True])
def test_the_reference_architecture(*, experts: bool) -> None:
    """1.6 M parameters by hand, dense; the variant reads fewer a token than it holds."""
    shape = shape_of(tiny(experts=experts))
    attention = 192 * (6 + 2 * 2) * 32 + 6 * 32 * 192 + (6 + 2) * 32
    dense, expert, router = 3 * 192 * 512, 3 * 192 * 160, 8 * 192
    feed_forward = (8 + 1) * expert + router if experts else dense
    by_hand = shape.vocab * 192 + 4 * (attention + feed_forward + 2 * 192) + 192
    meta = random_weights(shape, lambda *sizes: torch.empty(*sizes, device="meta"))
    assert sum(t.numel() for t in named_tensors(meta, tied=True).values()) == by_hand
    assert experts or 1.55e6 < by_hand < 1.85e6
