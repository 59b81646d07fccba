"""Captures of speculative decoders: what they write, and what they ask of a checkpoint."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.run import InterruptedCaptureError, capture
from kernels_ref.capture.source import source_at
from kernels_ref.decoders import policy, policy_names
from kernels_ref.decoding.batch import decode_batch
from tests.kernels_ref.capture.plans import plan
from tests.kernels_ref.capture.test_capture import files, stopping_at
from tests.kernels_ref.drafting.pairs import written_pair
from traces.iteration_trace import read_iteration_trace

POLICIES = policy_names("iterations")
SMALL_TREE = {"top_k": 3, "tree_size": 7}


def drafting(name: str, folder: Path, **settings: Any) -> Plan:
    """A plan of six problems for a small drafter of the right kind, or for its target alone."""
    chosen = policy(name)
    written = written_pair(folder / "pair", chosen.DRAFTER or "noise-adapters")
    path = written if chosen.DRAFTER else written.with_name("target.yaml")
    tree = SMALL_TREE if name.endswith("tree") else {}
    return plan(
        name,
        problems=6,
        batch=4,
        output_tokens=12,
        source=source_at(path, family=None, dtype="float64", threads=1),
        parameters=chosen.Parameters(**tree, **settings),
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", POLICIES)
def test_a_trace_holds_what_decoding_alone_does(
    name: str, temperature: float, tmp_path: Path
) -> None:
    """Every policy's captured rows are those of the same prompt decoded by itself."""
    asked = drafting(name, tmp_path, temperature=temperature)
    manifest = capture(asked, tmp_path / "trace")
    assert manifest.records == "iterations"
    found = read_iteration_trace(tmp_path / "trace")
    for row in found.requests.to_pylist():
        alone: Any = asked.request(row["problem"])
        decode_batch(asked.source.model, [alone], asked.policy.decode([alone], asked.parameters))
        assert row["output"] == alone.output().tolist()
        assert row["finish_reason"] == alone.finish_reason
        for table, rows in (("iterations", alone.record.iterations), ("steps", alone.record.steps)):
            mine = [r for r in found.table(table).to_pylist() if r["request"] == row["request"]]
            number = table.removesuffix("s")
            told = [{k: v for k, v in r.items() if k not in {"request", number}} for r in mine]
            expected = [dataclasses.asdict(each) for each in rows]
            # A step also says which iteration it belongs to; of iterations that is the number.
            assert [{**e, **t} for e, t in zip(expected, told, strict=True)] == [
                {**t, **e} for e, t in zip(expected, told, strict=True)
            ]


@pytest.mark.parametrize("name", ["uno-tree", "eagle3-linear"])
def test_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    """A capture that was interrupted and resumed leaves the same bytes as one that was not."""
    asked = drafting(name, tmp_path, temperature=1.0)
    capture(asked, tmp_path / "whole")
    with pytest.raises(InterruptedCaptureError, match=r"after 4 of 6 .*--resume"):
        capture(asked, tmp_path / "parts", report=stopping_at(4))
    capture(asked, tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_target_and_drafter_are_on_record(tmp_path: Path) -> None:
    """The manifest has the hashes of both, and what an iteration emits at least."""
    capture(drafting("uno-linear", tmp_path), tmp_path / "trace")
    found = read_iteration_trace(tmp_path / "trace").manifest
    assert (found.checkpoint.name, found.target.name) == ("drafter", "target")
    assert found.checkpoint.sha256 != found.target.sha256
    assert (found.guaranteed_tokens, found.checkpoint.trained_block_tokens) == (2, 6)


@pytest.mark.parametrize(("block", "warned"), [(None, 0), (6, 0), (2, 0), (7, 1)])
def test_a_larger_block_than_trained_is_warned_of(
    block: int | None, warned: int, tmp_path: Path
) -> None:
    """The trace says so; a smaller block is no surprise to causal drafts."""
    warnings = drafting("uno-linear", tmp_path, block=block).warnings
    assert len(warnings) == warned
    assert all("block 7, but the drafter was trained for blocks of up to 6" in w for w in warnings)


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("dflash", "eagle3", "dflash drafts with dflash, and drafter has eagle3; .*be dflash"),
        ("ar", "eagle3", "ar drafts with nothing, and drafter has eagle3; .*autoregressive"),
        ("uno-linear", "mask-adapters", "with noise-adapters, and drafter has mask-adapters"),
        ("gwd", "dflash", "gwd drafts with nothing, and drafter has dflash"),
    ],
)
def test_another_drafter_is_refused(name: str, kind: str, told: str, tmp_path: Path) -> None:
    """Before anything is decoded, with what would be right."""
    path = written_pair(tmp_path / "pair", kind)
    source = source_at(path, family=None, dtype="float64", threads=1)
    asked = plan(name, source=source, parameters=policy(name).Parameters())
    with pytest.raises(ValueError, match=told):
        capture(asked, tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_more_candidates_than_tokens_are_refused(tmp_path: Path) -> None:
    """K above the vocabulary is told before anything is decoded."""
    asked = drafting("uno-linear", tmp_path, sample_top_k=1000)
    with pytest.raises(ValueError, match="sample_top_k is at most the vocabulary, 106 tokens"):
        capture(asked, tmp_path / "trace")
