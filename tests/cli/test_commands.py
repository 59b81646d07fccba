"""What each command answers, as JSON for machines and as text for people."""

import csv
import json
import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import numpy as np
import pytest
import yaml

from reports.text import print_validation
from simulator import cli
from simulator.cli.list import KINDS, names_of
from tests.cli.command import call, installed, small, written

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
CONTEXT = click.Context(cli.blockcast)
COMMANDS = cli.blockcast.list_commands(CONTEXT)
NAMED = [(kind, name) for kind in KINDS for name in names_of(kind)]
LEVELS = {"mean", "p50", "p90", "p99"}
DISTRIBUTIONS = ["ttft_s", "tpot_s", "latency_s", "step_latency_s"]
NUMBERS = [
    "output_tokens_per_s",
    "output_tokens_per_s_per_request",
    "requests_per_s",
    "tokens_per_forward",
    "forwards",
    "steps",
    "output_tokens",
    "requests_finished",
    "simulated_s",
]
TRACED = {"policy": "uno-linear", "block": 4, "trace": "uno-qwen3-8b-t1", "benchmark": "GSM8K"}
EXPERTS = {
    "model": "llada2-mini",
    "hardware": "h100-sxm",
    "engine": "dinfer",
    "decode": {"policy": "gwd", "tokens_per_forward": 4.0},
    "batching": {"max_batch": 2},
    "workload": {"concurrency": 3, "requests": 5, "prompt_tokens": 70, "output_tokens": 90},
}
SCENARIOS = {
    "constant": small(),
    "traced": small(decode=TRACED, workload__requests=7, seed=5),
    "experts": EXPERTS,
    "one token": small(decode={"policy": "ar"}, workload__output_tokens=1),
    "slow": small(engine="vllm", decode={"policy": "ar"}, parallel={"tp": 2}),
}


def strict(text: str) -> Any:
    """The JSON value in *text*; NaN and infinities are errors, as the standard has it."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def answered(*arguments: object) -> Any:
    """The JSON value that a command prints; it succeeds and says nothing else."""
    answer = call(*arguments)
    assert (answer.code, answer.err) == (0, "")
    return strict(answer.out)


def test_help_tells_of_every_command() -> None:
    """`blockcast --help` lists the commands with a line each."""
    answer = call("--help")
    assert answer.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +\S", answer.out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """`blockcast COMMAND --help` says what the command answers and explains every option."""
    answer = call(name, "--help")
    assert answer.code == 0
    command = cli.blockcast.get_command(CONTEXT, name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert parameter.opts[-1] in answer.out


@pytest.mark.parametrize("kind", KINDS)
def test_lists(kind: str) -> None:
    """A list of names is the same as text and as JSON, sorted, each once."""
    names = answered("list", kind, "--json")
    assert names == sorted(set(names)) != []
    assert call("list", kind).out.split() == names


def test_the_names_that_scenarios_rely_on() -> None:
    """The shipped names of the contract are all there."""
    expected = {
        "models": "qwen3-8b uno-8b llada2-mini llada2-flash sdar-8b nemotron-labs-diffusion-14b "
        "diffusiongemma-26b-a4b dream-7b llada-8b fast-dllm-v2-7b llama-3-8b llama-3-70b",
        "hardware": "b200-sxm h100-sxm h200-sxm",
        "engines": "nano-vllm dinfer diffulex sglang vllm ideal",
        "workloads": "closed",
    }
    for kind, names in expected.items():
        assert set(names.split()) <= set(names_of(kind))


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_show(kind: str, name: str) -> None:
    """Everything with a name can be shown, as JSON and as equal YAML or as tables."""
    described = answered("show", kind, name, "--json")
    assert described["name"] == name
    if kind == "hardware" or "records" in described:
        assert name in call("show", kind, name).out
    else:
        assert yaml.safe_load(call("show", kind, name).out) == described


@pytest.mark.parametrize("name", SCENARIOS)
def test_run_prints_the_contract(name: str) -> None:
    """`run --json` has every field that was promised, finite and in range."""
    answer = answered("run", written(SCENARIOS[name]), "--json")
    assert {"scenario", "metrics", "interval", "fidelity", "warnings"} <= set(answer)
    metrics = answer["metrics"]
    for number in NUMBERS:
        # Without a decode step there is nothing to average.
        if not (name == "one token" and number == "tokens_per_forward"):
            assert math.isfinite(metrics[number])
            assert metrics[number] > 0 or name == "one token"
    for distribution in DISTRIBUTIONS:
        if metrics[distribution] is None:
            assert name == "one token"
        else:
            assert set(metrics[distribution]) >= LEVELS
            assert metrics[distribution]["p50"] <= metrics[distribution]["p99"]
    bounds = answer["interval"]["output_tokens_per_s"]
    assert bounds["low"] <= metrics["output_tokens_per_s"] <= bounds["high"]
    assert answer["fidelity"]["replay"] in {"constant", "resampled"}
    assert all(isinstance(warning, str) for warning in answer["warnings"])
    given = SCENARIOS[name]
    assert answer["scenario"]["model"] == given["model"]
    assert answer["scenario"]["workload"].items() >= given["workload"].items()


def test_settings_change_the_scenario() -> None:
    """Settings replace fields, add missing ones, and the last of a field counts."""
    path = written(small())
    options = ["decode.block=8", "seed=3", "seed=4", "batching={max_batch: 1}", "engine=vllm"]
    answer = answered("run", path, "--json", *(x for o in options for x in ("--set", o)))
    scenario = answer["scenario"]
    assert (scenario["decode"]["block"], scenario["seed"], scenario["engine"]) == (8, 4, "vllm")
    assert scenario["batching"]["max_batch"] == 1
    assert scenario["decode"]["tokens_per_step"] == 3.0


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a CSV file, numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: yaml.safe_load(v) for k, v in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_result_folder(name: str) -> None:
    """The folder has the printed JSON, a scenario that runs to the same JSON, and the records."""
    path, folder = written(SCENARIOS[name]), Path("results/first")
    printed = call("run", path, "--json", "--out", folder).out
    assert {f.name for f in folder.iterdir()} == {
        "result.json",
        "scenario.yaml",
        "requests.csv",
        "steps.csv",
    }
    assert [f.name for f in folder.parent.iterdir()] == ["first"]
    assert (folder / "result.json").read_text(encoding="utf-8") == printed
    again = call("run", folder / "scenario.yaml", "--json")
    assert (again.code, again.out) == (0, printed)
    check_records(rows(folder / "requests.csv"), rows(folder / "steps.csv"), strict(printed))


def check_records(
    requests: list[dict[str, Any]], steps: list[dict[str, Any]], answer: dict[str, Any]
) -> None:
    """The metrics are what the records on disk come to."""
    metrics = answer["metrics"]
    span = max(r["finished_s"] for r in requests) - min(r["arrival_s"] for r in requests)
    output = sum(r["output_tokens"] for r in requests)
    assert metrics["requests_finished"] == len(requests)
    assert metrics["output_tokens"] == output
    assert metrics["simulated_s"] == pytest.approx(span)
    assert metrics["output_tokens_per_s"] == pytest.approx(output / span)
    latencies = [r["finished_s"] - r["arrival_s"] for r in requests]
    assert metrics["latency_s"]["p50"] == pytest.approx(float(np.median(latencies)))
    firsts = [r["first_token_s"] - r["arrival_s"] for r in requests]
    assert metrics["ttft_s"]["mean"] == pytest.approx(float(np.mean(firsts)))
    decode = [s["seconds"] for s in steps if not s["prefill"]]
    assert metrics["steps"] == len(decode)
    assert metrics["forwards"] == sum(s["forwards"] for s in steps)
    if decode:
        assert metrics["step_latency_s"]["mean"] == pytest.approx(float(np.mean(decode)))
        forwards = sum(r["forwards"] for r in requests)
        decoded = output - sum(r["prefill_emitted_tokens"] for r in requests)
        assert metrics["tokens_per_forward"] == pytest.approx(decoded / forwards)


def test_equal_runs_are_equal_bytes() -> None:
    """Two processes with different hash seeds print the same bytes."""
    path = written(small(decode=TRACED, seed=11))
    first = installed("run", path, "--json", PYTHONHASHSEED="1")
    second = installed("run", path, "--json", PYTHONHASHSEED="4242")
    assert first == second
    assert first.code == 0
    assert first.err == ""
    strict(first.out)


def test_roofline() -> None:
    """Per pass and operation: times, rates under the roof, and what bounds it; also as a table."""
    path = written(small())
    answer = answered("roofline", path, "--json")
    assert answer["hardware"] == "h200-sxm"
    for row in answer["operations"]:
        assert row["bound"] in {"compute", "memory", "link", "launch"}
        assert row["seconds"] > 0
        roof = row["intensity_flop_per_byte"] * answer["peaks"]["memory_bytes_per_s"]
        assert row["attainable_flop_per_s"] <= roof * (1 + 1e-9)
    table = call("roofline", path).out
    for row in answer["operations"]:
        assert f"{row['pass_name']}: {row['operation']}" in table


def test_the_roofline_figure() -> None:
    """The figure is well-formed SVG, names the passes, and equal scenarios give equal bytes."""
    path = written(EXPERTS)
    drawn = []
    for name in ("one.svg", "two.svg"):
        assert call("roofline", path, "-o", name).code == 0
        drawn.append(Path(name).read_bytes())
    assert drawn[0] == drawn[1]
    assert ET.fromstring(drawn[0]).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 (our own)


@cache
def validated() -> dict[str, Any]:
    """What `validate --paper mbd --json` prints."""
    answer = installed("validate", "--paper", "mbd", "--json", "--workers", "1")
    assert answer.code == 0
    found: dict[str, Any] = strict(answer.out)
    return found


def test_validation() -> None:
    """Every cell of the paper is there with its prediction, and the error over the free ones."""
    answer = validated()
    assert len(answer["cells"]) == 20
    for cell in answer["cells"]:
        fields = {"table", "cell", "unit", "published", "predicted", "used_for_calibration"}
        assert fields | {"paper"} <= set(cell)
        assert cell["paper"] == "mbd"
        assert cell["predicted"] > 0
    free = [c for c in answer["cells"] if c["published"] and not c["used_for_calibration"]]
    errors = [abs(cell["predicted"] / cell["published"] - 1) for cell in free]
    assert answer["mape"] == {"mbd": pytest.approx(float(np.mean(errors)))}


@pytest.mark.parametrize("columns", [60, 200])
def test_texts_fit_any_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables come out on narrow and wide terminals, and no line of a table is wider."""
    path = written(small())
    ran = call("run", path, columns=columns)
    roofed = call("roofline", path, columns=columns)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_validation(validated())
    printed = [ran.out, roofed.out, capsys.readouterr().out]
    for text, word in zip(printed, ["Throughput", "h200-sxm", "mbd"], strict=True):
        assert word in text
        rules = [len(line) for line in text.splitlines() if "────" in line]
        assert rules
        assert max(rules) <= columns


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path) -> None:
    """Every example runs and ends with what it rests on."""
    answer = call("run", path)
    assert (answer.code, answer.err) == (0, "")
    assert "Rests on" in answer.out


def test_brackets_in_names_are_no_markup() -> None:
    """A path with brackets is printed as it is, in a run and in a fit."""
    folder = Path("[bold]/[") / "]"
    folder.mkdir(parents=True)
    engine, points = folder / "engine.yaml", folder / "points.csv"
    shown: dict[str, Any] = answered("show", "engines", "ideal", "--json")
    given = {name: value for name, value in shown.items() if value is not None}
    engine.write_text(yaml.safe_dump(given | {"name": "[/red]"}), encoding="utf-8")
    ran = call("run", written(small(engine=str(engine))))
    assert f"with {engine}" in ran.out
    assert "engine: [/red]: " in ran.out
    points.write_text("\n".join(measured(engine)) + "\n", encoding="utf-8")
    fitted = call("calibrate", points, "-o", folder / "fitted.yaml", columns=200)
    assert f"{points} line 2" in fitted.out


def measured(engine: Path) -> list[str]:
    """CSV lines of throughputs that the simulator itself gives on *engine*."""
    fields = ["model", "hardware", "decode.policy", "workload.concurrency"]
    lines = [",".join([*fields, "workload.output_tokens", "output_tokens_per_s"])]
    for concurrency in (1, 8, 32):
        document = small(
            engine=str(engine),
            decode={"policy": "ar"},
            workload={"concurrency": concurrency, "output_tokens": 40},
        )
        rate = answered("run", written(document), "--json")["metrics"]["output_tokens_per_s"]
        lines.append(f"qwen3-8b,h200-sxm,ar,{concurrency},40,{rate!r}")
    return lines


def test_calibration_end_to_end() -> None:
    """Overheads put into an engine come back from three points, and its file can be named."""
    shown: dict[str, Any] = answered("show", "engines", "ideal", "--json")
    overhead = {"step_s": 1.5e-3, "logit_s": 2e-11}
    given = {name: value for name, value in shown.items() if value is not None}
    engine = Path("engine.yaml")
    engine.write_text(yaml.safe_dump(given | {"name": "mine", "overhead": overhead}), "utf-8")
    lines = measured(engine)
    Path("points.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = call("calibrate", "points.csv", "--fit", "step_s,logit_s", "-o", "new/fitted.yaml")
    assert answer.code == 0
    assert "residual" in answer.out
    assert [path.name for path in Path("new").iterdir()] == ["fitted.yaml"]
    fitted = answered("show", "engines", "new/fitted.yaml", "--json")
    assert fitted["name"] == "fitted"
    assert fitted["calibration"]["points"] == 3
    assert fitted["calibration"]["fitted"] == ["step_s", "logit_s"]
    assert fitted["calibration"]["worst_residual"] < 1e-3
    for name, value in overhead.items():
        assert fitted["overhead"][name] == pytest.approx(value, rel=0.01)
    assert measured(Path("new/fitted.yaml"))[0] == lines[0]
    for old, new in zip(lines[1:], measured(Path("new/fitted.yaml"))[1:], strict=True):
        wanted, got = (float(line.rpartition(",")[2]) for line in (old, new))
        assert got == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("arguments", [["--help"], ["list", "models"], ["list", "policies"]])
def test_names_and_help_are_quick(arguments: list[str]) -> None:
    """Help and names come without the libraries that take long to import."""
    script = (
        "import sys\n"
        "from simulator.cli import main\n"
        f"sys.argv = ['blockcast', *{arguments!r}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'matplotlib', 'scipy', 'pandas'} & set(sys.modules)\n"
        "    print('heavy:', *sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "heavy:\n"
    assert done.stdout
