"""What lies in a folder that recipes are trained into."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from kernels_ref.checkpoint import CheckpointError
from kernels_ref.training import folder as place
from kernels_ref.training.folder import check_empty, check_start, forget, is_trained, start_of
from kernels_ref.training.learner import TrainingError
from tests.kernels_ref.drafting.pairs import written_pair
from tests.kernels_ref.training.small import tiny, trained
from tests.kernels_ref.training.small_drafters import tiny_draft

FIRST = tiny(name="first", steps=1, rows=1)
SECOND = tiny(name="second", steps=1, rows=1, start="first")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the first recipe's checkpoint."""
    trained(FIRST, tmp_path)
    return tmp_path


def test_a_checkpoint_of_the_very_recipe_is_trained(folder: Path) -> None:
    """Its name is not enough: what differs is named."""
    assert is_trained(FIRST, folder)
    assert not is_trained(SECOND, folder)
    with pytest.raises(TrainingError, match=r"first\.yaml: .*other steps, seed; --fresh"):
        is_trained(tiny(name="first", rows=1, steps=2, seed=3), folder)
    (folder / "first.yaml").write_text("name: first", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"first\.yaml: not a checkpoint manifest"):
        is_trained(FIRST, folder)


def test_nothing_is_overwritten_unasked(folder: Path) -> None:
    """A checkpoint or a state of any of the recipes stands in the way; others' do not."""
    check_empty([SECOND], folder)
    with pytest.raises(TrainingError, match=r"first\.yaml: is there already"):
        check_empty([SECOND, FIRST], folder)
    trained(tiny(name="second"), folder, steps=1)
    with pytest.raises(TrainingError, match=r"second\.state\.safetensors: .*not ended"):
        check_empty([SECOND], folder)


def test_forgetting_takes_one_recipes_files(folder: Path) -> None:
    """All of them, and no other's; again is no error."""
    trained(tiny(name="second"), folder, steps=1)
    before = sorted(path.name for path in folder.iterdir())
    forget([SECOND], folder)
    left = sorted(path.name for path in folder.iterdir())
    assert set(before) - set(left) == {"second.state.safetensors"}
    forget([FIRST, SECOND], folder)
    forget([FIRST, SECOND], folder)
    assert list(folder.iterdir()) == []


def test_a_start_is_in_the_folder_or_shipped(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order; neither is an error that says what to train."""
    elsewhere = tmp_path_factory.mktemp("empty")
    assert start_of(FIRST, elsewhere) is None
    assert start_of(SECOND, folder) == folder / "first.yaml"
    monkeypatch.setattr(place, "CHECKPOINTS", elsewhere)
    with pytest.raises(TrainingError, match=r"first\.yaml: not found, and none .* train it first"):
        start_of(SECOND, elsewhere)
    monkeypatch.setattr(place, "CHECKPOINTS", folder)
    assert start_of(SECOND, elsewhere) == folder / "first.yaml"


def test_no_run_starts_from_what_it_writes(folder: Path) -> None:
    """By any path; and what is no manifest is told before anything is removed."""
    check_start(SECOND, folder, folder / "first.yaml")
    check_start(SECOND, folder, None)
    with pytest.raises(TrainingError, match="is what first writes"):
        check_start(FIRST, folder, folder / ".." / folder.name / "first.yaml")
    with pytest.raises(CheckpointError, match=r"first\.log\.csv: not a checkpoint manifest"):
        check_start(SECOND, folder, folder / "first.log.csv")


def test_a_wrong_start_is_told_before_anything_is_removed(folder: Path) -> None:
    """A drafter is no model to go on from, and a model that denoises blocks no target."""
    written_pair(folder, "dflash")
    with pytest.raises(CheckpointError, match=r"drafter\.yaml: is a drafter"):
        check_start(SECOND, folder, folder / "drafter.yaml")
    drafter = tiny_draft("dflash")
    check_start(drafter, folder, folder / "target.yaml")
    with pytest.raises(CheckpointError, match=r"first\.yaml: .*denoises blocks"):
        check_start(drafter, folder, folder / "first.yaml")
