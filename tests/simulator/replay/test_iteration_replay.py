"""Replay without hardware: batches that are made up otherwise, and settings that are refused."""

import numpy as np
import pytest

from simulator.documents import DocumentError
from simulator.replay.iteration_replay import replay_iterations
from tests.simulator.replay.shipped_iterations import shipped
from traces.columns import numbers


@pytest.mark.parametrize("name", ["ref-uno-linear-b8-t1", "ref-eagle3-linear-b4-t0", "ref-ar-t1"])
@pytest.mark.parametrize("batch", [1, 5, 64, 1000])
def test_a_batch_has_the_forwards_of_its_slowest_row(name: str, batch: int) -> None:
    """One prefill, then as many forwards as the longest of so many successive requests has."""
    trace = shipped(name)
    own = numbers(trace.requests, "draft_forwards") + numbers(trace.requests, "verify_forwards")
    groups = [own[at : at + batch] for at in range(0, len(own), batch)]

    found = replay_iterations(trace, {"batch": batch})

    assert found.batch_forwards == sum(1 + int(np.max(group)) for group in groups)
    assert found.forwards == trace.manifest.counts.prefill_forwards + int(own.sum())
    assert found.replay == "exact"


def test_a_smaller_block_says_no_accuracy() -> None:
    """Other drafts draw other tokens, so what came out is not known."""
    found = replay_iterations(shipped("ref-uno-linear-b16-t1"), {"block": 4}).document()

    assert found["replay"] == "counterfactual"
    assert found["accuracy"] is None
    assert any("block 16" in said for said in found["warnings"])


def test_captured_values_may_be_written_out() -> None:
    """A setting that is what was captured changes nothing."""
    trace = shipped("ref-uno-tree-b16-v16-t1")
    same = {"temperature": 1.0, "tree_size": 16, "block": 16, "batch": 32}

    assert replay_iterations(trace, same).document() == replay_iterations(trace, {}).document()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ref-uno-linear-b8-t1", {"temperature": 0}, ["temperature 1.0, got 0; capture another"]),
        ("ref-uno-linear-b8-t1", {"blok": 4}, ["no setting 'blok'", "did you mean block"]),
        ("ref-uno-linear-b8-t1", {"block": 9}, ["captured at block 8", "ref-uno-linear-b16-t0"]),
        ("ref-uno-linear-b8-t1", {"block": 1}, ["block", "greater than or equal to 2"]),
        ("ref-uno-linear-b8-t1", {"block": "4"}, ["a whole number", "'4'"]),
        ("ref-uno-linear-b8-t1", {"block": True}, ["a whole number"]),
        ("ref-uno-linear-b8-t1", {"batch": 0}, ["batch", "a whole number"]),
        ("ref-uno-linear-b8-t1", {"tree_size": 4}, ["no setting 'tree_size'"]),
        ("ref-uno-tree-b16-v16-t1", {"tree_size": 4}, ["tree_size 16", "capture another"]),
        ("ref-uno-tree-b16-v16-t1", {"block": 8}, ["only replayed as captured"]),
        ("ref-ar-t1", {"block": 2}, ["captured at block 1"]),
        ("ref-ar-t1", {"batch": 0, "top_p": 0.5}, ["batch", "top_p"]),
    ],
)
def test_settings_that_no_replay_can_answer(
    name: str, settings: dict[str, object], words: list[str]
) -> None:
    """Every mistake is told, with what was captured."""
    with pytest.raises(DocumentError) as error:
        replay_iterations(shipped(name), settings)

    for word in words:
        assert word in str(error.value)
