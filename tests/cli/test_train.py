"""`blockcast train`: checkpoints from recipes, through interrupts and wrong input."""

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import yaml

from simulator.interrupts import interrupts
from tests.cli.command import Answer, call

pytest.importorskip("torch")

import torch

from kernels_ref.checkpoint import read_checkpoint_manifest
from kernels_ref.training import folder, language, reading
from kernels_ref.training.reading import recipe_names
from kernels_ref.training.run import logged_losses
from reports.training import draw, moving_median
from tests.kernels_ref.training.small import DENSE, tiny, trained

ROOT = Path(__file__).parents[2]
RECIPES = (
    # The names are not in the order in which they start from one another.
    tiny(name="c-first", steps=4, rows=1, objective="next-token"),
    tiny(name="b-second", steps=3, rows=1, start="c-first"),
    tiny(name="a-third", steps=2, rows=1, start="b-second"),
)
FIRST = RECIPES[0]


def written(recipe: Any, **changes: Any) -> str:
    """The recipe as a file; its path."""
    document = dataclasses.asdict(recipe) | changes
    path = Path(f"{document['name']}-recipe.yaml")
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models, three shipped recipes, and the folder of shipped checkpoints, empty."""
    recipes, shipped = (tmp_path_factory.mktemp(name) for name in ("recipes", "checkpoints"))
    for recipe in RECIPES:
        text = yaml.safe_dump(dataclasses.asdict(recipe))
        (recipes / f"{recipe.name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(reading, "RECIPES", recipes)
    monkeypatch.setattr(folder, "CHECKPOINTS", shipped)
    monkeypatch.setattr(language, "shape_of", lambda _: DENSE)
    return shipped


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A test may set their number; the next one finds what was before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def told(answer: Answer) -> list[dict[str, Any]]:
    """The checkpoints of a JSON answer."""
    assert answer.code == 0, answer.err
    found: list[dict[str, Any]] = json.loads(answer.out)["checkpoints"]
    return found


def files(place: Path) -> Mapping[str, bytes]:
    """All that lies in a folder."""
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}


def refused(answer: Answer, *words: str) -> None:
    """Exit 1, the words on standard error, nothing on standard output and no traceback."""
    assert answer.code == 1, answer
    assert answer.err.strip().startswith("blockcast: ")
    assert answer.out == ""
    for word in words:
        assert word in " ".join(answer.err.split())


@pytest.mark.usefixtures("small")
def test_one_recipe_from_a_file() -> None:
    """The answer is what the files say; the figure beside is told."""
    answer = call("train", written(FIRST), "--out", "made", "--threads", 1, "--figure", "a.svg")
    assert answer.code == 0, answer.err
    assert sorted(files(Path("made"))) == ["c-first.log.csv", "c-first.safetensors", "c-first.yaml"]
    manifest = read_checkpoint_manifest(Path("made/c-first.yaml"))
    for word in ("c-first", f"{manifest.final_loss:.4f}", manifest.sha256[:12], "figure: a.svg"):
        assert word in answer.out
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("small")
def test_all_recipes_each_from_the_one_before() -> None:
    """In order of dependence, as if each were trained from the one just trained by hand."""
    found = told(call("train", "all", "-o", "made", "--json"))
    assert [each["name"] for each in found] == ["c-first", "b-second", "a-third"]
    start = None
    for recipe, each in zip(RECIPES, found, strict=True):
        assert trained(recipe, Path("by-hand"), start=start)
        start = Path("by-hand") / f"{recipe.name}.yaml"
        expected = read_checkpoint_manifest(start)
        assert each == {
            "name": recipe.name,
            "steps": recipe.steps,
            "final_loss": expected.final_loss,
            "sha256": expected.sha256,
            "elapsed_s": each["elapsed_s"],
            "checkpoint": f"made/{recipe.name}.yaml",
        }
        assert each["elapsed_s"] > 0
    assert files(Path("made")) == files(Path("by-hand"))


def test_one_recipe_starts_from_the_folder_or_what_is_shipped(small: Path) -> None:
    """In this order, unless --start says otherwise; each start gives other weights."""
    missing = call("train", "b-second")
    refused(missing, "c-first.yaml: not found, and none of that name is shipped; train it first")
    trained(FIRST, small)
    shipped = told(call("train", "b-second", "--json"))
    trained(dataclasses.replace(FIRST, seed=8), Path("near"))
    near = told(call("train", "b-second", "-o", "near", "--json"))
    given = told(
        call("train", "b-second", "-o", "far", "--start", small / "c-first.yaml", "--json")
    )
    assert shipped[0]["sha256"] == given[0]["sha256"] != near[0]["sha256"]


@pytest.mark.usefixtures("small")
def test_steps_and_seed_instead_of_the_recipes() -> None:
    """They are in the manifest, which says how the weights came about."""
    (found,) = told(call("train", "c-first", "--steps", 2, "--seed", 77, "--json"))
    manifest = read_checkpoint_manifest(Path(found["checkpoint"]))
    assert found["steps"] == 2
    assert (manifest.recipe["steps"], manifest.recipe["seed"]) == (2, 77)
    assert len(logged_losses(Path("c-first.log.csv"))) == 2


@pytest.mark.usefixtures("small")
def test_a_checkpoint_is_overwritten_only_afresh() -> None:
    """Refused as it is; kept by --resume, of the same recipe only; replaced by --fresh."""
    call("train", "c-first")
    before = files(Path())
    refused(call("train", "c-first"), "c-first.yaml: is there already", "--fresh begins anew")
    refused(call("train", "all"), "c-first.yaml: is there already")
    (kept,) = told(call("train", "c-first", "--resume", "--json"))
    assert kept["elapsed_s"] is None
    assert "there already" in call("train", "c-first", "--resume").out
    other = call("train", "c-first", "--seed", 5, "--resume")
    refused(other, "c-first.yaml: trained by another recipe, other seed")
    assert files(Path()) == before
    (again,) = told(call("train", "c-first", "--seed", 5, "--fresh", "--json"))
    assert again["sha256"] != kept["sha256"]


@pytest.mark.usefixtures("small")
def test_what_is_refused_removes_nothing() -> None:
    """A bad start is told before --fresh forgets what is there."""
    call("train", "all", "--steps", 1)
    before = files(Path())
    refused(call("train", "c-first", "--fresh", "--start", "nowhere.yaml"), "nowhere.yaml: cannot")
    itself = call("train", "c-first", "--fresh", "--start", "c-first.yaml")
    refused(itself, "c-first.yaml: is what c-first writes")
    refused(call("train", "c-first", "--fresh", "--start", "c-first.log.csv"), "not a checkpoint")
    assert files(Path()) == before


@pytest.mark.usefixtures("small")
def test_all_resumes_where_it_was() -> None:
    """What is done stays, what was begun goes on, the rest follows: the bytes of a straight run."""
    call("train", "all", "-o", "straight")
    trained(RECIPES[0], Path("made"))
    trained(RECIPES[1], Path("made"), start=Path("made/c-first.yaml"), steps=2)
    refused(call("train", "all", "-o", "made"), "c-first.yaml: is there already")
    refused(
        call("train", "b-second", "-o", "made"),
        "b-second.state.safetensors: a run that has not ended; --resume goes on",
    )
    found = told(call("train", "all", "-o", "made", "--resume", "--json"))
    assert [each["elapsed_s"] is None for each in found] == [True, False, False]
    assert files(Path("made")) == files(Path("straight"))


@pytest.mark.usefixtures("small")
def test_a_state_of_another_recipe() -> None:
    """It is named and stays as it was; --fresh begins anew."""
    trained(FIRST, Path(), steps=2)
    before = files(Path())
    answer = call("train", "c-first", "--steps", 9, "--resume")
    refused(answer, "c-first.state.safetensors: of another recipe; --fresh begins anew")
    assert files(Path()) == before
    assert told(call("train", "c-first", "--steps", 1, "--fresh", "--json"))[0]["steps"] == 1
    assert "c-first.state.safetensors" not in files(Path())


SLOW = tiny(name="slow", steps=60, rows=1, objective="next-token")
OFTEN_SAVED = """
from kernels_ref.training import language, run
from tests.kernels_ref.training.small import DENSE
language.shape_of, run.SAVED_EVERY = lambda _: DENSE, 2
from simulator.__main__ import main
main()
"""


def test_an_interrupt_leaves_a_state_to_go_on_from(small: Path) -> None:
    """Ctrl-C: exit 1, a line that says how to go on; resumed, the straight run's bytes."""
    assert small.is_dir()
    recipe = written(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-c", OFTEN_SAVED, "train", recipe, "-o", "out", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    state = Path("out/slow.state.safetensors")
    try:
        end = time.monotonic() + 300
        while not state.exists():
            assert process.poll() is None, "it ended before"
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    answer = Answer(process.returncode, out.strip(), err)
    refused(answer, "interrupted; the state of slow is in out, --resume goes on from it")
    assert list(files(Path("out"))) == [state.name]
    assert told(call("train", recipe, "-o", "out", "--threads", 1, "--resume", "--json"))
    assert told(call("train", recipe, "-o", "straight", "--threads", 1, "--json"))
    assert files(Path("out")) == files(Path("straight"))


def test_interrupts_wait_once() -> None:
    """The first Ctrl-C is only said, the second interrupts, and afterwards all is as before."""
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.usefixtures("small")
def test_pressed_twice_it_stops_within_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1 and a line about it, no traceback."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(language, "loss", interrupt)
    refused(call("train", "c-first"), "interrupted within a step", "--resume")


@pytest.mark.usefixtures("small")
def test_the_figure_of_all_is_drawn_from_the_logs() -> None:
    """A curve of each recipe by name, in words too; the same bytes for the same logs; PNG too."""
    call("train", "all", "--figure", "all.svg")
    first = Path("all.svg").read_bytes()
    text = ET.fromstring(first).find("{http://www.w3.org/2000/svg}desc")  # noqa: S314 (our own)
    assert text is not None
    for recipe in RECIPES:
        losses = logged_losses(Path(f"{recipe.name}.log.csv"))
        final = read_checkpoint_manifest(Path(f"{recipe.name}.yaml")).final_loss
        sentence = (
            f"{recipe.name}: {recipe.steps} steps, loss {losses[0]:.3g} at first, {final:.3g}"
        )
        assert sentence in str(text.text)
    call("train", "all", "--figure", "all.svg", "--resume")
    assert Path("all.svg").read_bytes() == first
    call("train", "all", "--figure", "all.png", "--resume")
    assert Path("all.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("small")
def test_a_figure_without_a_log() -> None:
    """A checkpoint that came without its log has no curve, which is said by name."""
    call("train", "c-first")
    Path("c-first.log.csv").unlink()
    answer = call("train", "c-first", "--resume", "--figure", "a.png")
    refused(answer, "c-first.log.csv: cannot be read")
    assert not Path("a.png").exists()


@pytest.mark.parametrize("losses", [[2.0], [0.0, 0.0], [4.7, 4.6, 4.5]])
def test_short_runs_have_a_figure(losses: list[float]) -> None:
    """One step, a loss of zero, or hardly any change: still axes with numbers on them."""
    curve = {
        "name": "short",
        "losses": losses,
        "final_loss": losses[-1],
        "learning_rate_shares": [1.0] * len(losses),
    }
    draw([curve], Path("short.png"))
    assert Path("short.png").read_bytes().startswith(b"\x89PNG")


def test_the_moving_median() -> None:
    """Of five around each; less at the beginning on both sides, at the end on one."""
    values = [9.0, 7.0, 8.0, 1.0, 2.0, 3.0, 5.0]
    assert moving_median(values, 5).tolist() == [9.0, 8.0, 7.0, 3.0, 3.0, 2.5, 3.0]
    assert np.array_equal(moving_median(values, 1), values)


def test_an_unknown_recipe() -> None:
    """The nearest names and all there are."""
    answer = call("train", "self-corecting")
    refused(answer, "no recipe 'self-corecting'; did you mean self-correcting or", "known: all,")
    for name in recipe_names():
        assert name in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps", 0), ("--steps", "is at least 1, got 0")),
        (("--steps", -3), ("--steps", "is at least 1, got -3")),
        (("--seed", -1), ("--seed", "is from 0 to 2^63 - 1, got -1")),
        (("--seed", 2**63), ("--seed", "got 9223372036854775808")),
        (("--figure", "a.pdf"), ("a.pdf", "the figure is .svg or .png")),
        (("--figure", "nowhere/a.png"), ("nowhere/a.png", "a folder that there is")),
        (("--start", "nowhere.yaml"), ("nowhere.yaml: cannot be read: No such file",)),
    ],
)
def test_options_that_are_wrong(options: tuple[object, ...], words: tuple[str, ...]) -> None:
    """The option or file, the rule, and what was given; nothing is trained."""
    refused(call("train", "autoregressive", *options), *words)
    assert list(Path().iterdir()) == []


def test_all_of_them_start_from_one_another() -> None:
    """There is no one start for all."""
    refused(call("train", "all", "--start", "a.yaml"), "--start", "from one another")


@pytest.mark.parametrize(
    ("options", "word"), [(("--threads", 0), "--threads"), (("--resume", "--fresh"), "give one")]
)
def test_a_wrong_command_line(options: tuple[object, ...], word: str) -> None:
    """Ranges and contradictions are click's: exit 2 and the option."""
    answer = call("train", "autoregressive", *options)
    assert answer.code == 2
    assert word in answer.err


def test_a_file_where_a_folder_should_be() -> None:
    """The path is named, and the file stays as it was."""
    Path("taken").write_text("mine", encoding="utf-8")
    refused(call("train", "autoregressive", "--out", "taken"), "taken", "--out needs a folder")
    assert Path("taken").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("small")
def test_a_folder_that_cannot_be_written() -> None:
    """Not even by root: the path is named."""
    refused(call("train", "c-first", "--out", "/proc/nowhere"), "/proc/nowhere")


def test_a_recipe_file_with_mistakes() -> None:
    """Each is told with its field, and near names of unknown ones."""
    wrong = written(FIRST, steps=0, objektive="denoise")
    refused(call("train", wrong), wrong, "steps: must be greater than 0", "did you mean objective")
    refused(call("train", "nowhere.yaml"), "nowhere.yaml", "cannot be read")
    outside = written(FIRST)
    Path(outside).write_text(
        yaml.safe_dump(dataclasses.asdict(FIRST) | {"name": "../escape"}), encoding="utf-8"
    )
    refused(call("train", outside), "name", "../escape")


@pytest.mark.usefixtures("small")
def test_a_start_of_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and what differs."""
    trained(FIRST, Path("small"))
    other = dataclasses.replace(DENSE, hidden=32)
    monkeypatch.setattr(language, "shape_of", lambda _: other)
    answer = call("train", "b-second", "-o", "small")
    refused(answer, "small/c-first.yaml: its hidden is 24, the recipe trains 32")


def test_torch_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core runs without torch; this command says what to install."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "torch" else real(name, *rest),
    )
    refused(call("train", "all"), "torch is not installed", "pip install 'blockcast[torch]'")
