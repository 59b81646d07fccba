"""The published cells: complete, faithful to their sources, and each with a sound scenario."""

import csv
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.documents import DocumentError, load
from simulator.grid import UNITS
from simulator.published import (
    FOLDER,
    Calibration,
    Case,
    Measure,
    Publication,
    PublishedList,
    PublishedTable,
    cases,
    names,
    publication,
    table_cases,
)
from simulator.scenario import Findings, read

# Transcriptions of the sources, where a checkout has them beside it.
SOURCES = Path(os.environ.get("BLOCKCAST_SHARED", Path(__file__).parents[2] / "../shared"))
needs_sources = pytest.mark.skipif(
    not (SOURCES / "papers").is_dir(), reason="the transcriptions of the papers are not here"
)


@cache
def every_cell(paper: str) -> tuple[Case, ...]:
    """All cases of *paper*, read once."""
    return tuple(cases(publication(paper)))


def cells(paper: str, *, metric: str | None = None, table: str | None = None) -> list[Case]:
    """The cases of *paper*, optionally of one metric and one table."""
    return [
        case
        for case in every_cell(paper)
        if metric in {None, case.metric} and table in {None, case.table}
    ]


def cell(paper: str, table: str, text: str, metric: str) -> Case:
    """The one case with these coordinates."""
    (case,) = (c for c in cells(paper, metric=metric, table=table) if c.cell == text)
    return case


def transcription(paper: str) -> dict[str, Any]:
    """The tables of a paper as transcribed independently of the files under test."""
    text = (SOURCES / "papers" / f"{paper}.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)["tables"]
    return tables


def available(value: float | str | None) -> float | None:
    """A transcribed value, None when it is kept back."""
    return None if value is None or isinstance(value, str) else float(value)


def test_the_folder_holds_the_four_sources() -> None:
    """A source is found by the name that it gives itself."""
    assert names() == ["flowblock", "mbd", "served", "uno"]
    assert [publication(name).paper for name in names()] == names()


@pytest.mark.parametrize(
    ("paper", "table", "metric", "counts"),
    [
        ("uno", "18", "output_tokens_per_s", (98, 53, 45)),
        ("uno", "18, kernels alone", "output_tokens_per_s", (7, 2, 0)),
        ("flowblock", "1", "output_tokens_per_s", (32, 16, 8)),
        ("flowblock", "1", "latency_s", (32, 16, 0)),
        ("flowblock", "2", "output_tokens_per_s", (12, 9, 1)),
        ("flowblock", "2", "latency_s", (12, 9, 0)),
        ("flowblock", "3", "output_tokens_per_s", (12, 8, 2)),
        ("flowblock", "3", "latency_s", (12, 8, 0)),
        ("mbd", "3", "step_latency_s", (4, 3, 1)),
        ("mbd", "3", "output_tokens_per_s", (16, 12, 0)),
        ("served", "performance lab", "tpot_s", (6, 0, 0)),
        ("served", "silicon sample", "tpot_s", (215, 0, 0)),
    ],
)
def test_counts(paper: str, table: str, metric: str, counts: tuple[int, int, int]) -> None:
    """Every table has all its cells: in all, those unknown, those used for calibration."""
    found = cells(paper, metric=metric, table=table)
    unknown = sum(case.published is None for case in found)
    calibrating = sum(case.used_for_calibration_of is not None for case in found)
    assert (len(found), unknown, calibrating) == counts


@pytest.mark.parametrize("paper", names())
def test_cells_are_distinct(paper: str) -> None:
    """Table, cell and metric name one case."""
    found = Counter((case.table, case.cell, case.metric) for case in cells(paper))
    assert found.most_common(1)[0][1] == 1


@pytest.mark.parametrize("paper", names())
def test_scenarios_are_sound(paper: str) -> None:
    """Every case has a scenario without mistakes, and the unit of its metric."""
    findings = Findings(paper)
    for case in cells(paper):
        read(case.scenario, findings)
        assert case.unit == UNITS[case.metric]
    findings.stop()


def test_what_calibrates() -> None:
    """Each engine's fit sees its own cells with values, and nothing that is unknown."""
    everything = [case for paper in names() for case in cells(paper)]
    used = [case for case in everything if case.used_for_calibration_of]
    assert all(case.published is not None for case in used)
    assert {(case.paper, case.used_for_calibration_of) for case in used} == {
        ("uno", "nano-vllm"),
        ("flowblock", "dinfer"),
        ("mbd", "diffulex"),
    }
    dinfer = [case for case in used if case.used_for_calibration_of == "dinfer"]
    assert {case.cell.split(", ")[-1] for case in dinfer} == {"LLaDA-2.0"}


def test_a_cell_of_uno() -> None:
    """Table 18: 5733 tokens/s for 64 requests, drafting blocks of 4."""
    case = cell("uno", "18", "concurrency 64, uno_B4", "output_tokens_per_s")
    assert case.published == 5733
    assert case.used_for_calibration_of == "nano-vllm"
    assert case.scenario["decode"] == {"policy": "uno-linear", "block": 4, "tokens_per_step": 3.89}
    assert case.scenario["workload"] == {
        "kind": "closed",
        "concurrency": 64,
        "requests": 64,
        "prompt_tokens": 1024,
        "output_tokens": 8192,
    }


def test_cells_of_flowblock() -> None:
    """Table 1 HumanEval; the contradictory row of Table 2 is unknown."""
    case = cell("flowblock", "1", "benchmark HumanEval, LLaDA-2.1", "latency_s")
    assert case.published == 1.79
    assert case.scenario["workload"]["output_tokens"] == 322  # 180.1 tokens/s x 1.79 s
    assert case.scenario["decode"]["tokens_per_forward"] == 4.93
    wide = cell("flowblock", "2", "block length 128, LLaDA-2.0", "output_tokens_per_s")
    assert wide.published is None
    assert wide.scenario["decode"]["block"] == 128
    wave = cell("flowblock", "1", "benchmark MBPP, FlowBlock", "output_tokens_per_s")
    assert wave.published is None
    assert wave.scenario["decode"] == {
        "block": 32,
        "policy": "gwd",
        "window": 2,
        "tokens_per_forward": 4.43,
    }
    forced = cell("flowblock", "3", "generation length 512, D2F", "latency_s")
    assert forced.published is None
    assert forced.scenario["decode"] == {
        "block": 32,
        "policy": "d2f",
        "live_blocks": 2,
        "tokens_per_forward": 2.96,
    }


def test_cells_of_mbd() -> None:
    """Table 3: the step latency of LLaDA2-Mini calibrates, its throughput does not."""
    step = cell("mbd", "3", "model LLaDA2-Mini, step latency", "step_latency_s")
    assert step.published == 0.00707
    assert step.used_for_calibration_of == "diffulex"
    code = cell("mbd", "3", "model LLaDA2-Mini, HumanEval+", "output_tokens_per_s")
    assert code.published == 824.94
    assert code.used_for_calibration_of is None
    assert code.scenario["decode"]["tokens_per_forward"] == 5.53
    soft = cell("mbd", "3", "model LLaDA2-Mini-DMax, GSM8K", "output_tokens_per_s")
    assert soft.scenario["decode"] == {"block": 32, "policy": "dmax", "tokens_per_forward": 5.7}


def test_a_line_of_the_served_models() -> None:
    """Qwen3-8B alone on an H100 under vLLM: 7.22 ms per token."""
    text = (
        "Qwen3-8B, bf16, h100-sxm, vllm 0.11.0, tp 1, concurrency 1, requests 4, "
        "prompt_tokens 233, output_tokens 221"
    )
    case = cell("served", "performance lab", text, "tpot_s")
    assert case.published == 0.00722
    assert case.scenario["parallel"] == {"tp": 1, "dp": 1}


def test_served_requests_follow_the_concurrency() -> None:
    """Four rounds of requests, two where many run at once."""
    for case in cells("served"):
        workload = case.scenario["workload"]
        rounds = 4 if workload["concurrency"] <= 32 else 2
        assert workload["requests"] == rounds * workload["concurrency"]


@needs_sources
def test_uno_agrees_with_the_paper() -> None:
    """Table 18 and the tokens per step of Table 17, value by value; what is kept back is null."""
    tables = transcription("uno")
    throughput = tables["table18"]["system_throughput_tok_s"]
    steps = _uno_tokens_per_step(tables["table17"])
    for case in cells("uno"):
        row, column = case.cell.removeprefix("concurrency ").split(", ")
        assert case.published == available(throughput[int(row)][column]), case.cell
        assert case.scenario["decode"].get("tokens_per_step") == steps[column], case.cell


def _uno_tokens_per_step(table17: dict[str, Any]) -> dict[str, float | None]:
    """Table 17's averages at T=1 under the column names of Table 18."""
    averages = {
        "uno": table17["a_uno_qwen"]["rows"]["Average"]["T1"],
        "eagle3": table17["b_eagle3"]["rows"]["tau"]["T1"],
        "dflash": table17["c_dflash_thinking"]["rows"]["tau"]["T1"],
    }
    named = {
        f"{method}_{sampler.removeprefix('linear_').removeprefix('tree_')}": tau
        for method, row in averages.items()
        for sampler, tau in row.items()
    }
    return named | {"ar": None}


@needs_sources
def test_flowblock_agrees_with_the_paper() -> None:
    """Tables 1 to 3, value by value; what is kept back, and the contradictory row, is null."""
    tables = transcription("flowblock")
    for case in cells("flowblock"):
        label, method = case.cell.split(", ")
        row = label.rsplit(" ", 1)[-1]
        rows = tables[f"table{case.table}"]["rows"]
        printed = rows[int(row) if row.isdigit() else row][method]
        assert case.scenario["decode"]["tokens_per_forward"] == printed["tpf"], case.cell
        key = "tps" if case.metric == "output_tokens_per_s" else "lat_s"
        contradictory = (case.table, row, method) == ("2", "128", "LLaDA-2.0")
        assert case.published == (None if contradictory else available(printed[key])), case.cell


@needs_sources
def test_flowblock_output_lengths_are_throughput_times_latency() -> None:
    """Where a cell has both, its requests are as long as the two together say."""
    throughputs = cells("flowblock", metric="output_tokens_per_s")
    latencies = cells("flowblock", metric="latency_s")
    known = [
        (fast.published * slow.published, fast.scenario["workload"]["output_tokens"])
        for fast, slow in zip(throughputs, latencies, strict=True)
        if fast.published and slow.published
    ]
    assert len(known) == 23
    assert all(abs(product - length) <= 0.5 for product, length in known)


MBD_SOURCES = {
    "LLaDA2-Mini": ("LLaDA2-Mini", "SingleBD (Native)"),
    "MBD-LLaDA2-Mini": ("LLaDA2-Mini", "MBD-LLaDA2-Mini"),
    "LLaDA2-Mini-DMax": ("LLaDA2-Mini-DMax", "SingleBD (Native)"),
    "MBD-LLaDA2-Mini-DMax": ("LLaDA2-Mini-DMax", "MBD-LLaDA2-Mini-DMax"),
}
MBD_COLUMNS = {
    "GSM8K": "tps_gsm8k",
    "MATH500": "tps_math500",
    "MBPP+": "tps_mbpp_plus",
    "HumanEval+": "tps_humaneval_plus",
}


@needs_sources
def test_mbd_agrees_with_the_paper() -> None:
    """Table 3 and the tokens per forward of Table 1, value by value; what is kept back is null."""
    tables = transcription("mbd")
    for case in cells("mbd"):
        name, column = case.cell.removeprefix("model ").split(", ")
        printed = tables["table3"]["rows"][name]
        pace = case.scenario["decode"]["tokens_per_forward"]
        if case.metric == "step_latency_s":
            in_ms = available(printed["step_latency_ms"])
            assert case.published == (None if in_ms is None else pytest.approx(in_ms / 1e3))
            assert pace == printed["avg_tpf"]
        else:
            assert case.published == available(printed[MBD_COLUMNS[column]]), case.cell
            group, method = MBD_SOURCES[name]
            assert pace == tables["table1"]["rows"][group][method][column]["tpf"], case.cell


MODEL_IDS = {
    "Qwen/Qwen3-8B": "qwen3-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3-8b",
    "meta-llama/Llama-3.1-70B": "llama-3-70b",
}


def _served_rows() -> Iterator[tuple[tuple[object, ...], float]]:
    with (SOURCES / "measured" / "e2e_reference.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["method"] != "AR" or row["model"] not in MODEL_IDS:
                continue
            version = row["framework_version"].replace("unknown", "version unknown")
            yield (
                (
                    MODEL_IDS[row["model"]],
                    row["gpu"].lower().replace("_", "-"),
                    f"{row['framework']} {version}",
                    "bf16" if "bf16" in row["weights_dtype"] else "fp8",
                    int(row["tp"]),
                    int(row["concurrency"]),
                    int(row["isl"].split()[-1]),
                    int(row["osl"].split()[-1]),
                ),
                float(row["tpot_ms"]) / 1e3,
            )


@needs_sources
def test_served_agrees_with_the_measurements() -> None:
    """Every autoregressive row of the models, and no other, with its time per token."""
    ours = {
        (
            case.scenario["model"],
            case.scenario["hardware"],
            case.cell.split(", ")[3],
            case.scenario["precision"]["weights"],
            case.scenario["parallel"]["tp"],
            case.scenario["workload"]["concurrency"],
            case.scenario["workload"]["prompt_tokens"],
            case.scenario["workload"]["output_tokens"],
        ): case.published
        for case in cells("served")
    }
    assert ours == pytest.approx(dict(_served_rows()))


def _table() -> PublishedTable:
    return PublishedTable(
        table="1",
        row_name="batch",
        base={"model": "m", "decode": {"policy": "ar", "block": 1}},
        rows={1: {"workload.concurrency": 1}, 2: {"workload.concurrency": 2}},
        columns={"slow": {}, "fast": {"decode.block": 8}},
        measures=(
            Measure(
                metric="tpot_s",
                values={1: {"slow": 3.0, "fast": 2.0}, 2: {"slow": None, "fast": 1.0}},
                calibrates=Calibration(engine="e", columns=("slow",)),
            ),
        ),
        by_cell={"seed": {1: {"slow": 0, "fast": 1}, 2: {"slow": 2, "fast": 3}}},
    )


def test_a_table_expands_to_its_cells() -> None:
    """A cell takes the base scenario, then what its row, its column and itself set."""
    first, second, third, fourth = table_cases("p", _table())
    assert second == Case(
        paper="p",
        table="1",
        cell="batch 1, fast",
        metric="tpot_s",
        unit="s",
        published=2.0,
        used_for_calibration_of=None,
        scenario={
            "model": "m",
            "decode": {"policy": "ar", "block": 8},
            "workload": {"concurrency": 1},
            "seed": 1,
        },
    )
    assert first.used_for_calibration_of == "e"
    assert (third.published, third.used_for_calibration_of) == (None, None)
    assert fourth.scenario["seed"] == 3


def test_expanding_leaves_the_table_as_it_was() -> None:
    """Expansion is pure: twice gives the same, and the base keeps its values."""
    table = _table()
    assert list(table_cases("p", table)) == list(table_cases("p", table))
    assert table == _table()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": {1: {}}}, "tpot_s names 2; known: 1"),
        ({"rows": {1: {}, 2: {}, 4: {}}}, "tpot_s has nothing for 4"),
        ({"columns": {"slow": {}}}, "tpot_s, row 1 names 'fast'"),
        ({"by_cell": {"seed": {1: {"slow": 0, "fast": 1}}}}, "seed has nothing for 2"),
        (
            {"measures": (Measure("tpot_s", {}, Calibration("e", rows=(9,))),), "rows": {}},
            "calibrates.rows names 9",
        ),
    ],
)
def test_a_ragged_table_is_refused(changes: dict[str, Any], message: str) -> None:
    """Every grid has exactly the rows and columns of its table."""
    with pytest.raises(ValueError, match=message):
        replace(_table(), **changes)


@pytest.mark.parametrize(
    ("line", "message"),
    [((1, 2, 0.5), "1 fields and a result"), ((1, -0.5), "positive"), ((1, "x"), "positive")],
)
def test_a_ragged_list_is_refused(line: tuple[int | float | str, ...], message: str) -> None:
    """Every line has a value per field and a positive result."""
    with pytest.raises(ValueError, match=message):
        PublishedList("t", "l", "tpot_s", {}, ("parallel.tp",), (line,))


def test_mistakes_in_a_file_are_named(tmp_path: Path) -> None:
    """A wrong file says where it is wrong, the grid included."""
    text = (FOLDER / "mbd.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "mbd.yaml"
    wrong.write_text(text.replace("MBPP+: {}", "MBPP: {}").replace("title:", "titel:"))
    with pytest.raises(DocumentError) as caught:
        load(Publication, wrong)
    said = str(caught.value)
    assert "titel: no field 'titel'; did you mean title" in said
    assert "row LLaDA2-Mini names 'MBPP+'" in said
