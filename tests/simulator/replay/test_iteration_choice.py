"""Which scenarios a captured trace of iterations can drive, and what the results say of it."""

from pathlib import Path
from typing import Any

import pytest

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.replay.iteration_pace import IterationPace
from simulator.result import run
from tests.simulator.replay.shipped_iterations import shipped
from tests.strategies import deployed, document

UNO, TREE = "ref-uno-linear-b8-t1", "ref-uno-tree-b16-v32-t1"


def scenario(policy: str, trace: str, **decode: Any) -> dict[str, Any]:
    """A closed scenario of *policy* at the pace of *trace*."""
    return document(policy, {"policy": policy, "trace": trace, **decode})


def captured(policy: str, trace: str, **decode: Any) -> dict[str, Any]:
    """The same with the requests of the trace."""
    return scenario(policy, trace, **decode) | {
        "workload": {"kind": "captured", "concurrency": 4, "requests": 9}
    }


def refusal(policy: str, trace: str, **decode: Any) -> str:
    """What is said of a scenario that is refused."""
    with pytest.raises(DocumentError) as error:
        deployed(scenario(policy, trace, **decode))
    return str(error.value)


@pytest.mark.parametrize(
    ("policy", "trace", "filled"),
    [
        ("uno-linear", UNO, {"block": 8}),
        ("dflash", "ref-dflash-b4-t0", {"block": 4}),
        ("uno-tree", TREE, {"block": 16, "top_k": 32, "tree_size": 32}),
        ("eagle3-tree", "ref-eagle3-tree-b8-v16-t0", {"block": 8, "top_k": 10, "tree_size": 16}),
        ("quadratic", UNO, {"block": 8}),
    ],
)
def test_what_is_not_given_is_as_captured(policy: str, trace: str, filled: dict[str, int]) -> None:
    """Block, candidates and tree size come from the trace, not from the policy's defaults."""
    decode = deployed(scenario(policy, trace)).scenario.decode

    assert {name: getattr(decode, name) for name in filled} == filled


def test_a_folder_will_do_for_a_name() -> None:
    """A trace may lie anywhere."""
    folder = Path(__file__).parents[3] / "traces/data" / UNO

    named, placed = (deployed(scenario("uno-linear", t)) for t in (UNO, str(folder)))

    assert named.pace.mean_tokens == placed.pace.mean_tokens
    assert placed.scenario.decode.block == 8


@pytest.mark.parametrize(
    ("made", "replay"),
    [
        (captured("uno-linear", UNO), "exact"),
        (scenario("uno-linear", UNO), "resampled"),
        (captured("uno-linear", UNO, block=4), "counterfactual"),
        (scenario("uno-linear", UNO, block=4), "counterfactual"),
        (captured("quadratic", UNO), "counterfactual"),
        (captured("eagle3-tree", "ref-eagle3-tree-b8-v60-t1"), "exact"),
        (captured("ar", "ref-ar-t0"), "exact"),
        (document("uno-linear"), "constant"),
    ],
)
def test_the_result_says_how_faithful_it_is(made: dict[str, Any], replay: str) -> None:
    """Exact for captured requests as captured, counterfactual at any other block, else drawn."""
    summary = run(build(made, "test")).summary

    assert summary["fidelity"]["replay"] == replay
    if replay != "constant":
        assert str(made["decode"]["trace"]) in summary["fidelity"]["acceptance"]


@pytest.mark.parametrize(
    ("policy", "trace", "decode", "words"),
    [
        ("uno-linear", UNO, {"block": 12}, ["decode.block", "block 8", "ref-uno-linear-b16-t1"]),
        ("uno-tree", TREE, {"block": 8}, ["decode.block", "only replayed as captured"]),
        ("uno-tree", TREE, {"tree_size": 16}, ["decode.tree_size", "ref-uno-tree-b16-v16-t0"]),
        ("uno-tree", TREE, {"top_k": 8}, ["decode.top_k", "top_k 32"]),
        ("uno-tree", UNO, {}, ["decode.trace", "is of uno-linear, not of uno-tree", TREE]),
        ("dflash", UNO, {}, ["decode.trace", "dflash-qwen3-8b-t1", "ref-dflash-b16-t0"]),
        ("quadratic", "ref-dflash-b8-t1", {}, ["not of uno-linear, as quadratic needs", UNO]),
        ("uno-linear", "ref-gwd-w1", {}, ["is of gwd, not of uno-linear"]),
        ("ar", UNO, {}, ["decode.trace", "ref-ar-t0"]),
        ("ar", "uno-qwen3-8b-t1", {}, ["decode.trace", "not of ar"]),
        ("ar", "nowhere", {}, ["decode.trace", "no trace 'nowhere'"]),
        ("uno-linear", UNO, {"benchmark": "GSM8K"}, ["decode.benchmark", "held-out word"]),
        ("uno-linear", UNO, {"tokens_per_step": 3.0}, ["give one of"]),
        ("uno-linear", UNO, {"block": "8"}, ["decode.block"]),
    ],
)
def test_what_a_trace_cannot_tell_is_refused(
    policy: str, trace: str, decode: dict[str, Any], words: list[str]
) -> None:
    """The message says what was captured and which traces would do."""
    said = refusal(policy, trace, **decode)

    for word in words:
        assert word in said


def test_the_interval_has_the_spread_of_the_trace() -> None:
    """Drawn requests bring the trace's clustered standard error, repeated ones no error."""
    drawn, repeated = (
        run(build(made, "test")).summary["interval"]["terms"]["acceptance"]
        for made in (scenario("uno-linear", UNO), captured("uno-linear", UNO))
    )

    assert drawn == IterationPace(shipped(UNO), 8).sampling_error
    assert 0.01 < drawn < 0.05
    assert repeated == 0.0


def test_doubts_are_told() -> None:
    """Another model, a block read off a larger one, and what the trace itself warns of."""
    said = run(build(scenario("eagle3-linear", "ref-eagle3-linear-b16-t0", block=4), "test"))

    warnings = "\n".join(said.summary["warnings"])
    assert "was decoded by autoregressive" in warnings
    assert "read off steps of block 16" in warnings
    assert "drafter was trained for blocks" in warnings
