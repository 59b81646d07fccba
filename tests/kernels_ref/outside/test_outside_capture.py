"""Every decoder runs on a model from outside, and its trace says which one."""

import json
from pathlib import Path

import pytest

from kernels_ref.decoders import policy_names
from tests.cli.command import call
from tests.kernels_ref.outside.conftest import Made
from traces.block_trace import read_block_trace

BLOCKS = {"sdar": 4, "llada2": 32}
PROMPTS = ([3, 7, 5, 9, 11, 6], [8, 3])


@pytest.mark.parametrize("family", ["sdar", "llada2"])
@pytest.mark.parametrize("decoder", policy_names("blocks"))
def test_every_decoder_captures_a_model_from_outside(
    decoder: str, family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A folder in Hugging Face format and a file of tokens give a trace with the weights' hash."""
    made: Made = request.getfixturevalue(family)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"tokens": tokens}) for tokens in PROMPTS))
    out = tmp_path / "trace"
    options = ["--decoder", decoder, "--prompts", prompts, "--output-limit", 10, "--out", out]
    answer = call("capture", *options, "--checkpoint", made[0], "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["requests"] == len(PROMPTS)
    manifest = read_block_trace(out).manifest
    assert manifest.checkpoint.name == made[0].name
    assert manifest.checkpoint.sha256 != "0" * 64
    assert manifest.block_tokens == BLOCKS[family]


def test_a_model_from_outside_needs_prompts(sdar: Made, tmp_path: Path) -> None:
    """The project's own problems are words that such a model does not know."""
    answer = call("capture", "--decoder", "gwd", "--checkpoint", sdar[0], "--out", tmp_path / "t")
    assert answer.code == 1
    assert "--prompts" in answer.err
