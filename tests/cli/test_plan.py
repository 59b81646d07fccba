"""`blockcast plan`: what it prints and writes, and what it refuses.

Requests are evenly spaced and take equally long, one at a time, so that the fewest replicas are the
arrivals a service, rounded up.
"""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.scenario import with_settings
from tests.cli.command import Answer, call, installed
from tests.cli.test_bad_input import check_refused, everything

BASE: dict[str, Any] = {
    "model": "qwen3-8b",
    "hardware": "h100-sxm",
    "decode": {"policy": "ar"},
    "batching": {"max_batch": 1},
    "workload": {
        "kind": "constant",
        "rate_per_s": 250.0,
        "requests": 300,
        "prompt_tokens": 64,
        "output_tokens": 1,
    },
}
CLOSED = {"kind": "closed", "concurrency": 2, "prompt_tokens": 64, "output_tokens": 1}
SOON = ("--slo", "ttft_p99=25ms")
QUICK = ("--seeds", 2, "--workers", 1)
GPUS = ("--over", "hardware=[h100-sxm, h200-sxm]")


def written(name: str = "scenario.yaml", **changes: Any) -> Path:
    """A scenario's file; `workload__kind` is workload.kind."""
    path = Path(name)
    fields = {field.replace("__", "."): value for field, value in changes.items()}
    path.write_text(yaml.safe_dump(with_settings(BASE, fields), sort_keys=False), encoding="utf-8")
    return path


def plan(*arguments: object, **changes: Any) -> Answer:
    """A plan for the scenario with changes."""
    return call("plan", written(**changes), *QUICK, *arguments)


def planned(*arguments: object, **changes: Any) -> dict[str, Any]:
    """Its JSON, in which there is no number that is none."""

    def refuse(name: str) -> None:
        message = f"{name} is no JSON"
        raise ValueError(message)

    answer = plan("--json", *arguments, **changes)
    assert (answer.code, answer.err.strip()) == (0, "")
    found: dict[str, Any] = json.loads(answer.out, parse_constant=refuse)
    return found


def refused(*arguments: object, words: tuple[str, ...], **changes: Any) -> Answer:
    """It ends with one message that has the *words*, and nothing is written."""
    path = written(**changes)
    before = everything()
    answer = call("plan", path, *QUICK, "--out", "result", *arguments)
    check_refused(answer, *words)
    assert everything() == before
    return answer


def alone_s(hardware: str) -> float:
    """What a request takes when nobody else is there."""
    path = written("alone.yaml", workload=CLOSED | {"concurrency": 1}, hardware=hardware)
    metrics = json.loads(call("run", path, "--json").out)["metrics"]
    return float(metrics["latency_s"]["mean"])


def test_a_plan_on_the_terminal() -> None:
    """What was asked, the ranking, why the next one lost, and how to run each."""
    counts = {gpu: math.ceil(250.0 * alone_s(gpu)) for gpu in ("h100-sxm", "h200-sxm")}

    answer = plan(*SOON, *GPUS, "--gpu-hour-cost", "2.5")

    assert (answer.code, answer.err.strip()) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "The fewest GPUs for the scenario's load with ttft_p99 <= 25 ms"
    for gpu, count in counts.items():
        assert any(line.split()[:2] == [gpu, str(count)] for line in lines)
    assert "per M tokens" in answer.out
    assert "Next: " in answer.out
    assert "kept" in answer.out
    commands = [line for line in lines if line.startswith(" blockcast run ")]
    assert len(commands) == 2


@pytest.mark.parametrize(
    "goal", [("--over", "batching.max_batch=[1, 4]"), ("--max-rate", "--gpus", 2)]
)
def test_the_command_of_a_row_gives_its_values(goal: tuple[object, ...]) -> None:
    """What is printed runs as it stands, and comes to the value of the first seed."""
    workload = BASE["workload"] | {"kind": "poisson", "requests": 600, "rate_per_s": 200.0}
    options = ("--slo", "ttft_p90=60ms", "--set", "seed=7", *goal)

    answer = planned(*options, workload=workload)

    assert all(row["is_met"] for row in answer["rows"])
    for row in answer["rows"]:
        program, *arguments = shlex.split(row["command"])
        assert program == "blockcast"
        told = call(*arguments, "--json")
        assert told.code == 0
        metrics = json.loads(told.out)["metrics"]
        (estimate,) = row["estimates"]
        assert metrics["ttft_s"]["p90"] == estimate["by_seed"][0]


def test_the_folder_holds_the_answer_and_its_scenarios() -> None:
    """plan.json is what --json prints; each scenario runs and gives the value of its row."""
    answer = planned(*SOON, "--over", "hardware=[h100-sxm, no-such-gpu]", "--out", "out")

    assert json.loads(Path("out/plan.json").read_text(encoding="utf-8")) == answer
    assert [path.name for path in Path("out/scenarios").iterdir()] == ["1.yaml"]
    metrics = json.loads(call("run", "out/scenarios/1.yaml", "--json").out)["metrics"]
    best, other = answer["rows"]
    assert metrics["ttft_s"]["p99"] == best["estimates"][0]["by_seed"][0]
    assert "no hardware profile 'no-such-gpu'" in other["reason"]
    assert other["command"] is None


def test_one_process_and_two_say_the_same() -> None:
    """Byte for byte, and the installed command as this process."""
    path = written(workload__kind="poisson", workload__requests=400, workload__rate_per_s=90.0)
    options = ("--slo", "ttft_p90=200ms", *GPUS, "--seeds", 2, "--json")

    here = call("plan", path, *options, "--workers", 1)
    there = installed("plan", path, *options, "--workers", 2, PYTHONHASHSEED="3")

    assert (here.code, there.code) == (0, 0)
    assert there.out == here.out


def test_a_file_of_candidates() -> None:
    """Names of its points stand before what its grid sets; `where` leaves one out."""
    points = [
        {"name": "one", "batching": {"max_batch": 1}},
        {"name": "two", "batching.max_batch": 2},
    ]
    document = {
        "points": points,
        "grid": {"hardware": ["h100-sxm", "h200-sxm"]},
        "where": ["not (batching.max_batch == 2 and hardware == 'h100-sxm')"],
    }
    Path("candidates.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")

    answer = planned(*SOON, "--candidates", "candidates.yaml")

    names = {row["name"] for row in answer["rows"]}
    assert names == {"one, h100-sxm", "one, h200-sxm", "two, h200-sxm"}


def test_a_closed_load_with_a_rate() -> None:
    """It is made an open one, and the plan says so."""
    options = ("--slo", "ttft_p90=200ms", "--rate", 60, "--requests", 600)

    answer = planned(*options, workload=CLOSED)

    assert answer["notes"] == [
        "the closed load was made an open one: Poisson arrivals, the same lengths"
    ]
    assert answer["rows"][0]["replicas"] == 1


def test_the_scenarios_own_limits_are_an_objective() -> None:
    """Goodput of 99 % by them, where there is no other."""
    answer = planned(slo={"ttft": "25ms"})

    assert [each["name"] for each in answer["objectives"]] == ["goodput"]
    assert answer["objectives"][0]["limit"] == 0.99
    assert answer["rows"][0]["replicas"] == math.ceil(250.0 * alone_s("h100-sxm"))


def test_nothing_in_the_json_is_infinite() -> None:
    """Not for requests that are rejected and so take for ever, at most of the loads."""
    rows = [f"{i / 50!r},{10**6 if i % 10 == 0 else 64},1" for i in range(200)]
    text = "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n"
    Path("requests.csv").write_text(text, encoding="utf-8")
    workload = {"kind": "trace", "file": "requests.csv"}

    answer = planned("--slo", "ttft_p80=1s", workload=workload)

    assert answer["rows"][0]["replicas"] == 1
    lost = planned("--slo", "ttft_p99=1s", "--most-replicas", 2, workload=workload)
    assert not lost["rows"][0]["is_met"]
    assert "ttft_p99 for ever (at most 1 s)" in lost["rows"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (SOON, ("--rate: is needed: a closed load has no rate of its own",)),
        ((*SOON, "--rate", 0), ("--rate", "a rate is from 1e-06")),
        ((*SOON, "--rate", -1), ("--rate", "got -1.0")),
        ((*SOON, "--rate", "nan"), ("--rate", "got nan")),
        ((*SOON, "--rate", "inf"), ("--rate", "got inf")),
        ((*SOON, "--rate", "1e99"), ("--rate", "to 1000000 per second")),
        ((*SOON, "--rate", 5, "--max-rate"), ("--rate", "is what --max-rate looks for")),
        ((*SOON, "--rate", 5, "--gpus", 4), ("--gpus", "for --max-rate only")),
        (("--rate", 5), ("at least one objective is needed",)),
        (("--rate", 5, "--slo", "goodput>=0.9"), ("goodput counts requests within limits",)),
        (("--rate", 5, "--slo", "ttft_p101=1s", "--slo", "x=1"), ("p101", "'x=1'")),
        ((*SOON, *SOON, "--rate", 5), ("ttft_p99 is given twice",)),
        (("--rate", 5, "--slo", "ttft_p99=1us"), ("with ms, s, m or h",)),
        (
            ("--rate", 5, "--slo", "ttft_p99=1ms", "--slo", "latency_p50=1s"),
            ("even an idle replica has ttft_p99", "(at most 1 ms)"),
        ),
        (
            ("--rate", 5, "--slo", "requests_per_s>=6"),
            ("all that comes, served at once, has requests_per_s 5/s (at least 6/s)",),
        ),
        ((*SOON, "--rate", 5, "--over", "decode.block=4"), ("a list of values is needed",)),
        ((*SOON, "--rate", 5, "--over", "decode.block=[]"), ("a list of values is needed",)),
        ((*SOON, "--rate", 5, "--over", "decode.block"), ("must be key=value",)),
        ((*SOON, "--rate", 5, "--over", "decode.blok=[4]"), ("decode.blok", "did you mean")),
        ((*SOON, "--rate", 5, "--over", "seed=[1, 2]"), ("seed: is set by the plan itself",)),
        ((*SOON, "--rate", 5, "--over", "parallel.dp=[1, 2]"), ("parallel.dp: is set by",)),
        ((*SOON, "--rate", 5, "--over", "workload.rate_per_s=[1]"), ("is set by the plan",)),
        ((*SOON, "--rate", 5, "--over", "workload=[{kind: poisson}]"), ("is set by the plan",)),
        ((*SOON, "--rate", 5, "--over", "parallel=[{dp: 2}]"), ("parallel.dp: is set by",)),
        (
            (*SOON, "--rate", 5, "--over", f"batching.max_batch={list(range(1, 1002))}"),
            ("1,001 candidates; a plan is for at most 1,000",),
        ),
        ((*SOON, "--rate", 5, "--gpu-hour-cost", "h300=1"), ("no hardware profile 'h300'",)),
        ((*SOON, "--rate", 5, "--gpu-hour-cost", "nan"), ("a price is a number above zero",)),
        ((*SOON, "--rate", 5, "--set", "hardware=a100"), ("no hardware profile 'a100'",)),
        ((*SOON, "--rate", 5, "--set", "model=llama-3-70"), ("no model",)),
        ((*SOON, "--rate", 5, "--set", "modle=1"), ("modle", "did you mean model")),
        ((*SOON, "--rate", 5, "--candidates", "none.yaml"), ("none.yaml", "No such file")),
        ((*SOON, "--rate", 5, "--candidates", "."), ("is a folder",)),
    ],
)
def test_what_is_refused(arguments: tuple[object, ...], words: tuple[str, ...]) -> None:
    """Of a closed load: one message that says where and what, and no folder."""
    refused(*arguments, words=words, workload=CLOSED)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", ("candidates.yaml",)),
        ("- 1", ("candidates.yaml",)),
        ("points: 3", ("points",)),
        ("points: [1]", ("points",)),
        ("point: []", ("no part 'point'", "did you mean points")),
        ("scenario: other.yaml", ("no part 'scenario'",)),
        ("repeat: 3", ("no part 'repeat'",)),
        ("search: {trials: 3}", ("no part 'search'",)),
        ("grid: 5", ("grid",)),
        ("grid: {hardware: h100-sxm}", ("grid.hardware",)),
        ("grid: {hardwear: [h100-sxm]}", ("hardwear", "did you mean hardware")),
        ("grid: {parallel.dp: [1]}", ("parallel.dp: is set by the plan",)),
        ("points: [{name: a, seed: 3}]", ("seed: is set by the plan",)),
        ("points: [{name: a, parallel: {dp: 3}}]", ("parallel.dp: is set by the plan",)),
        ("points: [{hardware: h100-sxm}]\nwhere: ['1 +']", ("where",)),
        ("points: [{hardware: h100-sxm}]\nwhere: ['seed > 3']", ("none of the 1 points",)),
        ("grid: {batching.max_batch: [.nan]}", ("batching.max_batch",)),
        ("points: [", ("not readable as YAML",)),
    ],
)
def test_candidates_that_are_none(document: str, words: tuple[str, ...]) -> None:
    """The file or what is wrong in it is named."""
    Path("candidates.yaml").write_text(document, encoding="utf-8")

    refused(*SOON, "--candidates", "candidates.yaml", words=words)


@pytest.mark.parametrize("option", ["--gpus", "--requests", "--workers", "--most-replicas"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5"])
def test_counts_are_whole_and_above_zero(option: str, value: str) -> None:
    """The option is named, whatever else is right."""
    answer = plan(*SOON, "--max-rate", option, value)

    assert answer.code != 0
    assert option in answer.err
    assert "Traceback" not in answer.err


def test_a_folder_that_is_there_is_left_alone() -> None:
    """Before anything runs."""
    Path("result").mkdir()
    Path("result/mine").write_text("kept", encoding="utf-8")

    refused(*SOON, words=("result:", "exists already"))


def test_a_folder_that_cannot_be_made() -> None:
    """A file stands where its parent would be: an error, but the answer has been told by then."""
    Path("file").write_text("", encoding="utf-8")
    path = written()
    before = everything()

    answer = call("plan", path, *QUICK, *SOON, "--out", "file/result")

    assert answer.code == 1
    assert answer.out.startswith("The fewest GPUs")
    assert answer.err.startswith("blockcast: file/result:")
    assert "cannot be written" in answer.err
    assert everything() == before


def test_one_instant_and_captured_requests_are_no_load() -> None:
    """A plan says what it is for."""
    rows = "arrival_s,prompt_tokens,output_tokens\n" + "1.0,64,1\n" * 5
    Path("requests.csv").write_text(rows, encoding="utf-8")

    trace = {"kind": "trace", "file": "requests.csv"}
    refused(*SOON, words=("arrive at one instant",), workload=trace)
    refused(*SOON, words=("requests.csv",), workload=trace | {"file": "none/requests.csv"})


def test_a_candidate_that_does_not_fit_is_a_row() -> None:
    """Beside one that does; alone it is an error."""
    models = ("--over", "model=[qwen3-8b, llada2-flash]")

    answer = planned(*SOON, *models)

    assert [row["is_met"] for row in answer["rows"]] == [True, False]
    assert "GB" in answer["rows"][1]["reason"]
    refused(*SOON, "--set", "model=llada2-flash", words=("GB",))
