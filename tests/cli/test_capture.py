"""`blockcast capture`: what it prints, and what it says to bad input."""

import json
from pathlib import Path

import pytest

from kernels_ref.checkpoint import CHECKPOINTS
from tests.cli.command import call

BASE = ("--decoder", "gwd", "--problems", "3", "--batch", "2", "--output-limit", "48")


def test_the_summary_is_one_object() -> None:
    """--json prints the fields that other programs rely on, and the trace is there to be shown."""
    answer = call("capture", *BASE, "--out", "made", "--json")
    assert (answer.code, answer.err) == (0, "")
    summary = json.loads(answer.out)
    assert summary["requests"] == 3
    assert summary["tokens_per_forward"] > 1
    assert 0 <= summary["accuracy"] <= 1
    assert summary["batch_forwards"] < summary["forwards"]
    shown = call("show", "trace", "./made", "--json")
    assert json.loads(shown.out)["policy"] == "gwd"


def test_tables_say_where_the_trace_is_from() -> None:
    """Without --json the trace is shown as `show trace` shows it."""
    captured = call("capture", *BASE, "--out", "made")
    assert captured.out == call("show", "trace", "./made").out
    assert "self-correcting" in captured.out


def test_prompts_of_one_s_own() -> None:
    """A file of prompts is decoded as it stands, and nobody says whether it is right."""
    Path("mine.jsonl").write_text('{"text": "anna has 4 books . how many ?"}\n')
    answer = call("capture", *BASE, "--prompts", "mine.jsonl", "--out", "made", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["accuracy"] is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--decoder", "gwt"), "did you mean gwd"),
        (("--set", "window=0"), "window: must be greater than or equal to 1"),
        (("--set", "theta_spawn=1.5"), "theta_spawn: must be less than or equal to 1"),
        (("--set", "tau_mask=-0.1"), "tau_mask: must be greater than or equal to 0"),
        (("--set", "tau_mask=.nan"), "tau_mask"),
        (("--set", "windwo=2"), "windwo"),
        (("--set", "window"), "must be key=value"),
        (("--decoder", "block-buffer", "--set", "buffer=0"), "buffer: must be greater than or"),
        (("--set", "block=0"), "block: must be greater than or equal to 1"),
        (("--set", "block=500"), "fit the context of 192 tokens"),
        (("--batch", "0"), "--batch: is 1 to 100000, got 0"),
        (("--problems", "0"), "--problems: is 1 to 100000, got 0"),
        (("--output-limit", "0"), "--output-limit: is 1 to 1000000, got 0"),
        (("--output-limit", "5000"), "fit the context of 192 tokens"),
        (("--seed", "-1"), "--seed: is 0 to 4294967295, got -1"),
        (("--checkpoint", "selfcorrecting"), "did you mean self-correcting"),
        (("--checkpoint", "missing.yaml"), "missing.yaml"),
        (("--checkpoint", "."), "config.json"),
        (("--prompts", "missing.jsonl"), "cannot be read"),
        (("--prompts", "empty.jsonl"), "at least 1 problem"),
        (("--prompts", "no-tokens.jsonl"), "a prompt has at least one token"),
        (("--limit", "5"), "--limit"),
        (("--set", "tau_mask=true"), "tau_mask"),
        (("--set", "window=1000000000"), "window: must be less than or equal to 4096"),
        (("--decoder", "block-entropy", "--set", "entropy_bound=.inf"), "entropy_bound"),
        (("--family", "llada2"), "is of a Hugging Face folder"),
        (("--problems", "1000000000"), "--problems: is 1 to 100000"),
        (("--prompts", "no-words.jsonl"), "at least one word"),
        (("--out", "there"), "exists"),
    ],
)
def test_bad_input_is_named(changes: tuple[str, ...], said: str) -> None:
    """Each mistake is told with its field and rule, exit code 1, and nothing is written."""
    Path("there").mkdir()
    Path("empty.jsonl").write_text("\n")
    Path("no-tokens.jsonl").write_text('{"tokens": []}\n')
    Path("no-words.jsonl").write_text('{"text": " "}\n')
    before = sorted(path.name for path in Path().iterdir())
    answer = call("capture", *BASE, "--out", "made", *changes)
    assert answer.code == 1
    assert said in " ".join(answer.err.split())
    assert answer.out == ""
    assert sorted(path.name for path in Path().iterdir()) == before


def test_weights_that_were_changed_are_refused() -> None:
    """A checkpoint whose file has another hash than its manifest says is not run."""
    for suffix in ("yaml", "safetensors"):
        content = (CHECKPOINTS / f"self-correcting.{suffix}").read_bytes()
        Path(f"mine.{suffix}").write_bytes(content[:-1] + b"x" if suffix != "yaml" else content)
    answer = call("capture", *BASE, "--checkpoint", "mine.yaml", "--out", "made")
    assert answer.code == 1
    assert "sha256" in answer.err


def test_another_block_is_a_warning_in_the_manifest() -> None:
    """A block that the checkpoint was not trained for is allowed, and said wherever it is shown."""
    answer = call("capture", *BASE, "--set", "block=32", "--out", "made")
    assert answer.code == 0
    assert "trained for blocks of 16" in " ".join(answer.out.split())
    assert "trained for blocks of 16" in Path("made/manifest.yaml").read_text()


def test_resuming_what_is_whole_says_so() -> None:
    """A whole trace is left as it is."""
    assert call("capture", *BASE, "--out", "made").code == 0
    answer = call("capture", *BASE, "--out", "made", "--resume")
    assert answer.code == 1
    assert "already whole" in answer.err
