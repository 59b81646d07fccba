"""The README's commands and the numbers that it shows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.command import call

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines() if line.startswith("blockcast ")]


@pytest.fixture
def _examples() -> None:
    shutil.copytree(ROOT / "examples", "examples")


@pytest.mark.usefixtures("_examples")
def test_every_command_runs() -> None:
    """The README's commands, in its order, each work on the shipped examples."""
    assert len(LINES) >= 6
    for line in LINES:
        answer = call(*shlex.split(line)[1:])
        assert (answer.code, answer.err.strip()) == (0, ""), line


@pytest.mark.usefixtures("_examples")
def test_the_shown_output_is_what_comes_out() -> None:
    """Every line of the README's sample output stands in the real one, spaces aside."""
    shown = re.search(r"\(shortened here\):\n\n```\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    answer = call("run", "examples/qwen3-8b-uno.yaml")
    real = [" ".join(line.split()) for line in answer.out.splitlines()]
    for line in shown[1].splitlines():
        words = " ".join(line.removesuffix("...").split())
        assert any(words in told for told in real), line


@pytest.mark.usefixtures("_examples")
def test_the_example_scenario_of_the_readme_runs() -> None:
    """The scenario that the README writes out is a valid one, and so is the question."""
    scenario, question = sorted(re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
    Path("scenario.yaml").write_text(scenario, encoding="utf-8")
    Path("question.yaml").write_text(question, encoding="utf-8")
    assert call("roofline", "scenario.yaml").code == 0
    assert call("what-if", "./question.yaml", "--workers", "1").code == 0
