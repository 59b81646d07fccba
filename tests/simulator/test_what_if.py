"""What-ifs: which column is best, by how much, and why, from runs that are made up by hand."""

from typing import Any

import pytest

from reports.what_if import conclusion, why, with_words
from simulator import what_if as module
from simulator.deployment import build
from simulator.library import WHAT_IFS
from simulator.reasons import Bound, reason, step_seconds
from simulator.result import run
from simulator.runs import Summary, summaries
from simulator.what_if import WhatIf, answer

TINY: dict[str, Any] = {
    "model": "qwen3-8b",
    "hardware": "h200-sxm",
    "decode": {"policy": "uno-linear", "block": 4, "tokens_per_step": 3.0},
    "workload": {"prompt_tokens": 16, "output_tokens": 12},
}


def asked(**changes: Any) -> WhatIf:
    """A question with rows 1, 2 and 4 and columns A and B."""
    given: dict[str, Any] = {
        "name": "made-up",
        "question": "Which?",
        "row_name": "batch",
        "base": TINY,
        "rows": {n: {"workload.concurrency": n} for n in (1, 2, 4)},
        "columns": {"A": {"decode.block": 4}, "B": {"decode.block": 8}},
        "metric": "output_tokens_per_s",
        "better": "higher",
        "conclusion": "crossover",
    }
    return WhatIf(**given | changes)


def made(rate: float, relative: float = 0.1, **changes: Any) -> dict[str, Any]:
    """A run's summary: 80 % of its time is decoding, three quarters of which are experts."""
    metrics = {
        "output_tokens_per_s": rate,
        "latency_s": {"mean": 1 / rate},
        "steps": 100,
        "step_latency_s": {"mean": 0.004},
        "prefill_time_share": 0.2,
    }
    return {
        "metrics": metrics | changes,
        "interval": {"relative": relative},
        "time_shares": {
            "by_operation": {"denoise: experts": 0.6, "prefill: experts": 0.2, "verify: o": 0.2},
            "by_bound": {"compute": 0.3, "memory": 0.6, "engine": 0.1},
        },
        "warnings": [f"{rate:g} is made up", "so is this"],
    }


def answered(monkeypatch: pytest.MonkeyPatch, question: WhatIf, *runs: Summary) -> dict[str, Any]:
    """The answer where the runs, line by line, came to *runs*."""
    monkeypatch.setattr(module, "summaries", lambda scenarios, **_: runs[: len(scenarios)])
    return answer(question)


def crossing(monkeypatch: pytest.MonkeyPatch, *rates: float | str) -> str:
    """The conclusion where A and B came to these rates, row by row; a text is a refusal."""
    runs = [rate if isinstance(rate, str) else made(rate) for rate in rates]
    return conclusion(answered(monkeypatch, asked(), *runs))


def test_a_cell_takes_base_row_column_and_group() -> None:
    """The document of every cell, line by line, the group's settings in each of its lines."""
    groups: dict[Any, Any] = {"H100": {"hardware": "h100-sxm"}, "H200": {}}
    question = asked(group_name="GPU", groups=groups, rows={7: {"workload.concurrency": 7}})
    documents = [document for _, document in question.scenarios()]
    assert [document["hardware"] for document in documents] == ["h100-sxm"] * 2 + ["h200-sxm"] * 2
    assert [document["decode"]["block"] for document in documents] == [4, 8, 4, 8]
    assert documents[0]["workload"] == {"prompt_tokens": 16, "output_tokens": 12, "concurrency": 7}


def test_what_differs_by_cell_comes_after_row_and_column() -> None:
    """A grid of values sets its field cell by cell."""
    grid: dict[Any, Any] = {n: {"A": n, "B": 10 * n} for n in (1, 2, 4)}
    question = asked(by_cell={"workload.output_tokens": grid})
    lengths = [document["workload"]["output_tokens"] for _, document in question.scenarios()]
    assert lengths == [1, 10, 2, 20, 4, 40]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": {"A": {}, "B": {}, "C": {}}}, "a crossover is of 2 columns, got 3"),
        ({"columns": {"A": {}}, "conclusion": "best column per row"}, "at least 2 columns, got 1"),
        ({"rows": {}}, "at least one row"),
        ({"by_cell": {"seed": {1: {"A": 1, "B": 2}}}}, "seed has nothing for 2, 4"),
    ],
)
def test_what_cannot_be_answered_is_refused(changes: dict[str, Any], message: str) -> None:
    """Columns to compare, rows, and whole grids are needed."""
    with pytest.raises(ValueError, match=message):
        asked(**changes)


def test_the_best_and_its_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 against 100 is 20 % more; within an interval of 25 %, not within one of 10 %."""
    told = answered(
        monkeypatch,
        asked(rows={1: {}, 2: {}}),
        *(made(100), made(120), made(120, relative=0.25), made(100)),
    )
    first, second = told["lines"]
    assert (first["best"], first["runner_up"]) == (("B",), "A")
    assert first["margin"] == pytest.approx(0.2)
    assert (first["within_interval"], second["within_interval"]) == (False, True)
    assert second["interval"] == 0.25
    assert told["warnings"] == ["100 is made up", "so is this", "120 is made up"]


def test_less_is_better_where_it_is_asked_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of latencies the shorter is the best: 1/120 against 1/100 s, a margin of 20 %."""
    question = asked(rows={1: {}}, metric="latency_s", better="lower")
    (line,) = answered(monkeypatch, question, made(100), made(120))["lines"]
    assert line["best"] == ("B",)
    assert line["cells"]["A"]["value"] == pytest.approx(0.01)
    assert line["margin"] == pytest.approx(0.2)


def test_equal_columns_share_the_first_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal columns are both best; the margin is over the next."""
    columns: dict[Any, Any] = {"A": {}, "B": {}, "C": {}}
    question = asked(columns=columns, rows={1: {}}, conclusion="best column per row")
    told = answered(monkeypatch, question, made(100), made(50), made(100))
    (line,) = told["lines"]
    assert (line["best"], line["runner_up"], line["margin"]) == (("A", "C"), "B", 1.0)
    assert conclusion(told) == "A and C are best at batch 1."
    (line,) = answered(monkeypatch, question, made(7), made(7), made(7))["lines"]
    assert (line["best"], line["margin"], why(line)) == (("A", "B", "C"), None, "all are equal")


def test_a_refused_cell_leaves_the_table_standing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell says why; the other column is best without a rival; nothing may fit at all."""
    question = asked(rows={1: {}, 2: {}}, conclusion="best column per row")
    told = answered(monkeypatch, question, "too large", made(5), "too large", "far too large")
    first, second = told["lines"]
    assert first["cells"]["A"]["refused"] == "too large"
    assert (first["best"], first["runner_up"], second["best"]) == (("B",), None, ())
    assert [why(line) for line in told["lines"]] == ["nothing else fits", "nothing fits"]
    assert conclusion(told) == "B is best at batch 1, nothing fits at batch 2."


def test_a_step_without_the_prefill() -> None:
    """Decoding is 80 % of the time, so 60 % on experts are three quarters of 4 ms."""
    assert step_seconds(made(1)) == pytest.approx({"experts": 0.003, "o": 0.001})


def test_the_reason_of_a_longer_step() -> None:
    """Half the steps, each twice as long: the experts' 3 ms grow to 6, o's 1 ms to 2."""
    found = reason(made(1, steps=50, step_latency_s={"mean": 0.008}), made(1))
    assert found is not None
    assert (found.steps_ratio, found.step_ratio) == pytest.approx((0.5, 2.0))
    assert found.operation == "experts"
    assert found.operation_s == pytest.approx(0.003)
    assert found.bound == Bound("memory", 0.6)


def test_the_reason_of_a_shorter_step() -> None:
    """Where steps are shorter, what shrank most is told, and what only one of the two has."""
    other = made(1)
    other["time_shares"]["by_operation"] = {"engine: overhead": 0.7, "denoise: experts": 0.1}
    other["time_shares"]["by_bound"] = {"memory": 0.3, "engine": 0.7}
    found = reason(made(1, step_latency_s={"mean": 0.002}), other)
    assert found is not None
    assert found.operation == "overhead"
    assert found.operation_s == pytest.approx(-0.0035)
    assert found.other_bound == Bound("engine", 0.7)


def test_no_step_no_reason() -> None:
    """A run whose prefill emits everything has no step to compare."""
    assert reason(made(1, steps=0, step_latency_s=None), made(1)) is None


def test_the_reason_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios, the operation with its sign and unit, and what bounds either run."""
    fast = made(120, steps=50, step_latency_s={"mean": 0.008})
    slow = made(100)
    slow["time_shares"]["by_bound"] = {"compute": 0.7, "memory": 0.3}
    told = with_words(answered(monkeypatch, asked(rows={1: {}}), fast, slow))
    assert told["lines"][0]["why"] == (
        "0.50x the steps of B, each 2.00x as long (experts +3 ms); memory 60 % (there compute 70 %)"
    )
    unsure = made(101, steps=99, relative=0.5)
    told = with_words(answered(monkeypatch, asked(rows={1: {}}), unsure, made(100)))
    assert told["lines"][0]["why"] == (
        "within the interval (50 %): 0.99x the steps of B, each as long; memory 60 % (there 60 %)"
    )


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((3, 2, 3, 2, 2, 3), "A beats B at batch 1 to 2 and stops at 4 (B +50.0 %)."),
        ((3, 2, 2, 3, 3, 2), "A beats B at batch 1 and 4 and stops at 2 (B +50.0 %)."),
        ((2, 3, 3, 2, 100, 99), "A beats B at batch 2 to 4, not before, and never stops."),
        (
            (2, 3, 3, 2, 99, 100),
            "A beats B at batch 2 and stops at 4 (B +1.0 %, within the interval).",
        ),
        ((3, 2, 2, 2, 2, 3), "A beats B at batch 1 and stops at 2 (equal)."),
        ((3, 2, 3, 2, 3, 2), "A beats B at every batch from 1 to 4."),
        ((2, 3, 2, 2, 2, 3), "A never beats B at batch 1 to 4."),
        (
            (3, 2, "no", 2, 2, 3),
            "A beats B at batch 1 and stops at 4 (B +50.0 %) (not compared: 2).",
        ),
        (("no", 2, "no", 2, 2, "no"), "A and B are nowhere compared."),
    ],
)
def test_where_a_column_stops_winning(
    monkeypatch: pytest.MonkeyPatch, rates: tuple[float | str, ...], words: str
) -> None:
    """The rows at which the first column wins, and the first after them at which it does not."""
    assert crossing(monkeypatch, *rates) == words


def test_a_conclusion_names_groups_and_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part for every group; rows whose margin lies within the interval are said to."""
    question = asked(
        group_name="GPU",
        groups={"H100": {}, "H200": {}},
        rows={1: {}, 2: {}},
        conclusion="best column per row",
    )
    runs = [made(101), made(100), made(200), made(100), made(1), made(2), made(100), made(101)]
    assert conclusion(answered(monkeypatch, question, *runs)) == (
        "GPU H100: A is best at batch 1 and 2 (1 within the interval); "
        "GPU H200: B is best at batch 1 and 2 (2 within the interval)."
    )


def test_cells_are_runs() -> None:
    """Every cell is what `run` says of its scenario; equal documents share a run; 2 workers too."""
    question = asked(rows={1: {}, 2: {}})
    work = question.scenarios()
    calls: list[None] = []
    found = summaries(work, advance=lambda: calls.append(None))
    assert len(calls) == 4
    assert found[0] is found[2]
    expected = run(build(work[0][1], "by itself")).summary
    for part in ("metrics", "interval", "time_shares", "warnings"):
        assert not isinstance(found[0], str)
        assert found[0][part] == expected[part]
    assert summaries(work, workers=2) == found


def test_a_refused_scenario_says_why() -> None:
    """A run that cannot be is its mistake in words, and the others run."""
    wrong, right = summaries([("a", TINY | {"hardware": "h300"}), ("b", TINY)])
    assert isinstance(wrong, str)
    assert "no hardware profile 'h300'" in wrong
    assert isinstance(right, dict)


@pytest.mark.parametrize("name", WHAT_IFS.names())
def test_shipped_questions_are_sound(name: str) -> None:
    """Every cell has a scenario that builds or says that it does not fit; notes tell the rest."""
    question: WhatIf = WHAT_IFS.get(name)
    assert question.name == name
    assert question.question.endswith("?")
    assert question.note
    documents = [document for _, document in question.scenarios()]
    build(documents[0], name)
    build(documents[-1], name)
    assert all("tokens_per" not in str(document["decode"]) for document in documents)


def test_the_six_questions() -> None:
    """They are found by their names."""
    assert WHAT_IFS.names() == [
        "buffer-size",
        "gpu-generations",
        "packed-or-synchronous",
        "store-forward",
        "uno-block",
        "wavefront-batch",
    ]
