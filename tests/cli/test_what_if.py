"""`blockcast what-if`: the list of questions, a table that fits a terminal, JSON, mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.library import WHAT_IFS
from tests.cli.command import call, small

QUESTION: dict[str, Any] = {
    "name": "mine",
    "question": "Does drafting eight tokens [or four] pay?",
    "note": "Three tokens a step either way.",
    "row_name": "batch",
    "base": small(),
    "rows": {
        1: {"workload.concurrency": 1},
        50_000: {"workload.concurrency": 50_000, "batching.max_batch": 100_000},
    },
    "columns": {"four": {"decode.block": 4}, "eight": {"decode.block": 8}},
    "metric": "output_tokens_per_s",
    "better": "higher",
    "conclusion": "crossover",
}


def mine(**changes: Any) -> Path:
    """A file with a question of one's own: one row runs, one does not fit."""
    path = Path("mine.yaml")
    path.write_text(yaml.safe_dump(QUESTION | changes, sort_keys=False), encoding="utf-8")
    return path


def test_the_questions_are_listed() -> None:
    """Without a name every shipped question is told, as text and as JSON."""
    listed = json.loads(call("what-if", "--json").out)
    assert [each["name"] for each in listed] == WHAT_IFS.names()
    text = " ".join(call("what-if").out.split())
    for each in listed:
        assert each["name"] in text
        assert each["question"] in text


@pytest.mark.parametrize("columns", [80, 100])
def test_the_table(columns: int) -> None:
    """Question, a line per row, why, the refused cells by number, the conclusion and the note."""
    answer = call("what-if", mine(), "--workers", 1, columns=columns)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "…" in line]
    assert lines[0] == QUESTION["question"]
    text = " ".join(answer.out.split())
    assert "the steps of eight, each" in text
    assert "four beats eight at every batch from 1 (not compared: 50000)." in text
    assert "50000 [1] [2] - - nothing fits" in text
    assert "[1] does not fit: a batch of 50000 sequences" in text
    assert QUESTION["note"] in text


def test_the_json() -> None:
    """Every cell with value and interval or refusal, and the sentence that the table prints."""
    answer = json.loads(call("what-if", mine(), "--json", "--workers", 1).out)
    first, second = answer["lines"]
    assert first["best"] == ["four"]
    cells = first["cells"]
    ratio = cells["four"]["value"] / cells["eight"]["value"]
    assert first["margin"] == pytest.approx(ratio - 1)
    assert first["interval"] == max(cell["interval"] for cell in cells.values())
    assert first["reason"]["steps_ratio"] == 1.0
    assert second["cells"]["four"]["refused"].startswith("does not fit")
    assert answer["conclusion"].startswith("four beats eight at every batch")
    assert (answer["unit"], answer["better"], answer["draws"]) == (
        "tokens/s",
        "higher",
        "crossover",
    )


def test_a_run_is_the_same_by_itself() -> None:
    """A cell has the number that `run` prints for its scenario."""
    answer = json.loads(call("what-if", mine(), "--json", "--workers", 1).out)
    scenario = Path("scenario.yaml")
    document = QUESTION["base"] | {"workload": QUESTION["base"]["workload"] | {"concurrency": 1}}
    scenario.write_text(yaml.safe_dump(document), encoding="utf-8")
    alone = json.loads(call("run", scenario, "--json").out)
    value = answer["lines"][0]["cells"]["four"]["value"]
    assert value == alone["metrics"]["output_tokens_per_s"]


def test_times_have_their_unit() -> None:
    """Where the metric is a time, less is better and the cells say ms."""
    path = mine(metric="tpot_s", better="lower", rows={1: {"workload.concurrency": 1}})
    assert call("what-if", path, "--workers", 1).out.count(" ms") >= 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"better": "faster"}, ["better", "'higher' or 'lower'"]),
        ({"conclusion": "both"}, ["conclusion", "crossover"]),
        ({"columns": {"four": {}}}, ["a crossover is of 2 columns, got 1"]),
        ({"colums": {}}, ["did you mean columns"]),
        ({"metric": "speed"}, ["metric", "output_tokens_per_s"]),
    ],
)
def test_mistakes_are_told(changes: dict[str, Any], words: list[str]) -> None:
    """What is wrong in a file of one's own is said on standard error, and nothing is printed."""
    answer = call("what-if", mine(**changes))
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err for word in words)


def test_an_unknown_name() -> None:
    """The nearest question is suggested."""
    answer = call("what-if", "uno-blok")
    assert answer.code == 1
    assert "did you mean uno-block" in answer.err


def test_a_question_of_goodput_under_load() -> None:
    """Two replicas keep more requests within their limits than one; shares are in per cent."""
    load = {"kind": "poisson", "rate_per_s": 60.0, "requests": 200}
    limits = {"ttft": "100ms"}
    base = small(workload=load | {"prompt_tokens": 64, "output_tokens": 64}, slo=limits)
    changes = {
        "base": base | {"batching": {"max_batch": 8}},
        "rows": {60: {}},
        "columns": {"two": {"parallel.dp": 2}, "one": {"parallel.dp": 1}},
        "metric": "goodput",
    }
    answer = json.loads(call("what-if", mine(**changes), "--json", "--workers", 1).out)
    (line,) = answer["lines"]
    shares = {name: cell["value"] for name, cell in line["cells"].items()}
    assert 0 <= shares["one"] < shares["two"] <= 1
    assert (answer["unit"], line["best"], line["interval"]) == ("share", ["two"], None)
    assert f"{100 * shares['two']:.1f} %" in call("what-if", mine(**changes), "--workers", 1).out
