"""Captures: what they write, stop with, and go on from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import Prompt, PromptsError, from_file, tokens_sha256
from kernels_ref.capture.run import CaptureError, InterruptedCaptureError, capture
from kernels_ref.decoders import policy, policy_names
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.task.checking import check
from kernels_ref.task.problems import problems
from kernels_ref.task.vocabulary import encode_text
from tests.kernels_ref.capture.plans import plan, source
from traces.block_trace import read_block_trace

POLICIES = policy_names("blocks")


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stopping_at(problems_done: int) -> Callable[[int], None]:
    """A report that is interrupted once so many problems are done."""

    def report(done: int) -> None:
        if done >= problems_done:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("name", POLICIES)
def test_a_trace_holds_what_decoding_alone_does(name: str, tmp_path: Path) -> None:
    """Every policy's captured rows are those of the same prompt decoded by itself."""
    asked = plan(name, problems=4, batch=4)
    capture(asked, tmp_path / "trace")
    found = read_block_trace(tmp_path / "trace")
    for row in found.requests.to_pylist():
        sequence: Any = asked.request(row["problem"])
        decode_batch(
            asked.source.model, [sequence], asked.policy.decode([sequence], asked.parameters)
        )
        assert row["output"] == sequence.output().tolist()
        mine = [step for step in found.steps.to_pylist() if step["request"] == row["request"]]
        assert [step["kind"] for step in mine] == [f.kind for f in sequence.record.forwards]
        assert [step["revealed"] for step in mine] == [f.revealed for f in sequence.record.forwards]
        blocks = [b for b in found.blocks.to_pylist() if b["request"] == row["request"]]
        assert [b["ready"] for b in blocks] == [b.ready for b in sequence.record.blocks]
        assert [b["retired"] for b in blocks] == [b.retired for b in sequence.record.blocks]


def test_batches_take_their_slowest_row(tmp_path: Path) -> None:
    """Forwards over a packed batch are those of its slowest row, and one for all prompts."""
    counts = capture(plan(problems=7, batch=3), tmp_path / "trace").counts
    requests = read_block_trace(tmp_path / "trace").requests.to_pylist()
    denoise = [row["denoise_forwards"] for row in requests]
    slowest = max(denoise[:3]) + max(denoise[3:6]) + denoise[6]
    assert counts.batch_prefill_forwards == 3
    assert counts.batch_forwards == slowest + 3


def test_verdicts_are_the_checker_s(tmp_path: Path) -> None:
    """Accuracy in the manifest is the share of outputs that the task's checker accepts."""
    found = capture(plan(), tmp_path / "trace")
    rows = read_block_trace(tmp_path / "trace").requests.to_pylist()
    drawn = problems("held-out", 3)
    verdicts = [check(next(drawn), row["output"]).correct for row in rows]
    assert found.accuracy is not None
    assert found.accuracy.correct == sum(verdicts) / len(verdicts)


@pytest.mark.parametrize("stop_at", [3, 6])
def test_resumed_equals_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    """A capture that was interrupted and resumed leaves the same bytes as one that was not."""
    capture(plan(), tmp_path / "whole")
    with pytest.raises(InterruptedCaptureError, match=f"after {stop_at} of 7 .*--resume"):
        capture(plan(), tmp_path / "parts", report=stopping_at(stop_at))
    partial = read_block_trace(tmp_path / "parts")
    assert partial.manifest.partial
    assert partial.requests.num_rows == stop_at
    capture(plan(), tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_nothing_is_written_before_a_batch_is_whole(tmp_path: Path) -> None:
    """An interrupt before the first batch leaves no folder."""
    with pytest.raises(InterruptedCaptureError, match="nothing is written"):
        capture(plan(), tmp_path / "trace", report=stopping_at(0))
    assert not (tmp_path / "trace").exists()


def test_a_limit_stops_between_batches(tmp_path: Path) -> None:
    """A time limit that is over at once leaves nothing, and says so."""
    with pytest.raises(InterruptedCaptureError, match="reached its limit"):
        capture(plan(), tmp_path / "trace", limit_s=0.0)


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    """Without resume an output folder that exists is an error, and stays as it is."""
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "mine").write_text("kept")
    with pytest.raises(CaptureError, match="exists"):
        capture(plan(), tmp_path / "trace")
    assert files(tmp_path / "trace") == {"mine": b"kept"}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (plan(batch=2), "batch"),
        (plan(seed=4), "seed"),
        (plan(parameters=policy("gwd").Parameters(window=3)), "parameters"),
        (plan("joint-threshold"), "policy, parameters"),
        (plan(source=source(sha256="1" * 64)), "checkpoint"),
        (plan(problems=8), "requests_asked"),
        (plan(task="other prompts"), "task"),
    ],
)
def test_only_the_same_capture_is_resumed(other: Plan, what: str, tmp_path: Path) -> None:
    """A partial trace of another plan is refused, and what differs is named."""
    with pytest.raises(InterruptedCaptureError):
        capture(plan(), tmp_path / "trace", report=stopping_at(3))
    before = files(tmp_path / "trace")
    with pytest.raises(CaptureError, match=f"another {what}"):
        capture(other, tmp_path / "trace", resume=True)
    assert files(tmp_path / "trace") == before


def test_an_empty_folder_is_begun_by_resume(tmp_path: Path) -> None:
    """What a kill before the first snapshot left is no dead end."""
    (tmp_path / "trace").mkdir()
    capture(plan(problems=2), tmp_path / "trace", resume=True)
    assert not read_block_trace(tmp_path / "trace").manifest.partial


def test_two_captures_do_not_share_a_folder(tmp_path: Path) -> None:
    """A capture that begins while another is under way is refused, and the first one finishes."""
    refused = []

    def report(done: int) -> None:
        if done == 0:
            with pytest.raises(CaptureError, match="exists") as error:
                capture(plan(seed=9), tmp_path / "trace")
            refused.append(error)

    capture(plan(), tmp_path / "trace", report=report)
    assert len(refused) == 1
    assert read_block_trace(tmp_path / "trace").manifest.seed == 3


def test_prompts_of_one_name_are_told_apart() -> None:
    """Other tokens have another hash, which the trace's task names."""
    one, other = ([Prompt((2, token))] for token in (5, 6))
    assert tokens_sha256(one) == tokens_sha256([Prompt((2, 5))])
    assert tokens_sha256(one) != tokens_sha256(other)


def test_a_whole_trace_is_not_resumed(tmp_path: Path) -> None:
    """There is nothing to resume in a whole trace."""
    capture(plan(problems=2), tmp_path / "trace")
    with pytest.raises(CaptureError, match="already whole"):
        capture(plan(problems=2), tmp_path / "trace", resume=True)


def test_warnings_say_what_the_checkpoint_was_not_trained_for(tmp_path: Path) -> None:
    """Another block, and another prompt than the checkpoint's, are in the manifest."""
    asked = plan(
        parameters=policy("gwd").Parameters(block=4),
        source=source("prefix-full"),
        problems=2,
    )
    first, second = capture(asked, tmp_path / "trace").warnings
    assert "block 4" in first
    assert "blocks of 8" in first
    assert "prefix-full" in second


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"batch": 0}, "at least 1 row"),
        ({"prompts": []}, "at least 1 problem"),
        ({"prompts": [Prompt((2,)), Prompt(())]}, "prompt 1: a prompt has at least one token"),
        ({"prompts": [Prompt((5,) * 90)]}, "fit the context of 96"),
        ({"prompts": [Prompt((2, 10_000))]}, "prompt tokens are 0 to"),
    ],
)
def test_bad_plans_fail_before_anything_is_decoded(
    changes: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    """What cannot be decoded is named by its prompt before the first forward."""
    with pytest.raises(ValueError, match=rule):
        capture(plan(**changes), tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_prompts_of_a_file_are_text_or_tokens(tmp_path: Path) -> None:
    """Lines of text and of tokens are both read, no more of them than asked for."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"text": "anna has 4 books ."}\n\n{"tokens": [2, 5]}\nnot read\n')
    read = from_file(path, 2, encode_text)
    assert [prompt.tokens for prompt in read] == [tuple(encode_text("anna has 4 books .")), (2, 5)]


@pytest.mark.parametrize(
    "line", ['{"text": "xylophone"}', "[1]", '{"tokens": [1.5]}', '{"tokens": [true]}', "{", "7"]
)
def test_a_bad_line_is_named(line: str, tmp_path: Path) -> None:
    """A line that is no prompt is an error with its number."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(f'{{"tokens": [2]}}\n{line}\n')
    with pytest.raises(PromptsError, match="line 2"):
        from_file(path, 9, encode_text)


def test_unchecked_prompts_have_no_accuracy(tmp_path: Path) -> None:
    """Of prompts that nobody can judge the trace says so."""
    found = capture(plan(prompts=[Prompt((2, 5, 9))]), tmp_path / "trace")
    assert found.accuracy is not None
    assert found.accuracy.correct is None
    assert read_block_trace(tmp_path / "trace").requests["correct"].to_pylist() == [None]
