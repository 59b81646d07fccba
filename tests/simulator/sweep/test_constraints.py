"""Constraints: what holds, what is refused, and where."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from simulator.documents import DocumentError
from simulator.scenario_fields import scenario_fields
from simulator.sweep.constraints import REFUSED, Constraints, constraints

FIELDS = scenario_fields()


def limits(*texts: str) -> Constraints:
    """The constraints that the texts are."""
    return constraints(texts, FIELDS, "sweep.yaml")


def documents() -> list[dict[str, Any]]:
    """Scenarios of two policies, several sizes and degrees."""
    sizes = itertools.product((1, 2, 4), (1, 2, 8), (16, 32))
    made = []
    for tp, size, block in sizes:
        parallel = {"tp": tp}
        buffer = {"policy": "block-buffer", "buffer": size, "block": block}
        window = {"policy": "gwd", "window": size, "block": block, "theta_spawn": size / 10}
        made += [{"decode": decode, "parallel": parallel} for decode in (buffer, window)]
    return made


def guard(condition: bool, then: Callable[[], bool]) -> bool:  # noqa: FBT001
    """What `A if B` means."""
    return then() if condition else True


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "buffer <= 4 if policy == block-buffer",
            lambda d: guard(d["policy"] == "block-buffer", lambda: d["buffer"] <= 4),
        ),
        (
            "decode.window * decode.block <= 128 if policy == 'gwd'",
            lambda d: guard(d["policy"] == "gwd", lambda: d["window"] * d["block"] <= 128),
        ),
        (
            "tp in [1, 2] and not policy == gwd",
            lambda d: d["tp"] in {1, 2} and d["policy"] != "gwd",
        ),
        ("tp not in [1, 2] or block == 16", lambda d: d["tp"] not in {1, 2} or d["block"] == 16),
        ("1 < tp <= 2", lambda d: 1 < d["tp"] <= 2),
        (
            "(window > 1 if policy == gwd) and (buffer > 1 if policy == block-buffer)",
            lambda d: d.get("window", 9) > 1 and d.get("buffer", 9) > 1,
        ),
        (
            "window == 1 if policy == gwd else buffer != 1",
            lambda d: d["window"] == 1 if d["policy"] == "gwd" else d["buffer"] != 1,
        ),
        ("block // 3 % 5 - 1 < tp + 2", lambda d: d["block"] // 3 % 5 - 1 < d["tp"] + 2),
        ("-tp / 2 >= -1.5", lambda d: -d["tp"] / 2 >= -1.5),
        ("theta_spawn < 2e-1 if policy == gwd", lambda d: d.get("theta_spawn", 0) < 0.2),
        ("dp == 1 and slo.ttft == null", lambda _: True),
        ("true", lambda _: True),
    ],
)
def test_it_means_what_python_would(text: str, meaning: Callable[[dict[str, Any]], bool]) -> None:
    """Every constraint holds of the same points as a function written by hand."""
    made = limits(text)
    found = [made.hold(each) for each in documents()]
    assert found == [meaning(each["decode"] | each["parallel"]) for each in documents()]


def test_defaults_count() -> None:
    """What a scenario leaves out has the value of the schema, or of its captured trace."""
    assert limits("block == 32").hold({"decode": {"policy": "block-buffer"}})
    assert limits("workload.kind == closed and concurrency == 1").hold({})
    captured = {"decode": {"policy": "gwd", "trace": "ref-gwd-w3-t0.3"}}
    assert limits("window == 3 and theta_spawn == 0.3").hold(captured)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp <= ", ["character 4", "no expression"]),
        ("(tp == 1", ["character 1", "no expression"]),
        ("tp == 1)", ["character 8", "no expression"]),
        ("", ["a constraint has an expression"]),
        ("tp = 1", ["character 4", "write == for ="]),
        ("tp == 1 && dp == 1", ["character 9", "write and for &&"]),
        ("polcy == ar", ["character 1", "did you mean policy"]),
        ("decode.windw == 2", ["character 1", "did you mean decode.window"]),
        ("tp == 1 and kind == closed", ["character 13", "routing.kind or workload.kind"]),
        ("slo == 1", ["slo is a section"]),
        ("workload.kind == trace", ["character 18", "a field and a name", "in quotes"]),
        ("tp and dp == 1 and 3", ["character 20", "neither true nor false"]),
        ("tp ** 9 == 1", ["character 4", "not part of the language"]),
        ("tp == open('x')", ["something else"]),
        ("tp.__class__ == 1", ["character 1", "no field 'tp.__class__'"]),
        ("[x for x in tp] == 1", ["character 4", "two texts side by side"]),
        ("policy == large small", ["character 17", "two texts side by side"]),
        ("tp[0] == 1", ["something else"]),
        ("tp == 'a' * 10", ["a text is not reckoned with"]),
        ("tp == 1; dp == 1", ["character 8", "not part of the language"]),
        ("tp == " + "-" * 500 + "1", ["nested more than"]),
        ("tp == 1" + " " * 1000, ["at most 1000 characters"]),
    ],
)
def test_wrong_ones_are_told_with_their_place(text: str, words: list[str]) -> None:
    """The expression is refused before there is any point, with what is wrong and where."""
    with pytest.raises(DocumentError) as refused:
        limits("tp == 1", text)
    told = str(refused.value)
    assert "where[1]" in told
    assert all(word in told for word in words), told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("buffer <= 4", "there is no decode.buffer under policy gwd; guard it"),
        ("policy < 3", "'gwd' and 3 have no order"),
        ("policy * 2 == 4", "only numbers are reckoned with"),
        ("tp / 0 == 1", "division by zero"),
        ("tp in 3", "in needs a list"),
        ("tp", "comes to 2, neither true nor false"),
    ],
)
def test_what_a_point_cannot_tell(text: str, words: str) -> None:
    """A point of which a constraint says nothing is named, with the reason."""
    made = limits(text)
    document = {"decode": {"policy": "gwd"}, "parallel": {"tp": 2}}
    with pytest.raises(REFUSED):
        made.hold(document)
    (mistake,) = made.mistakes(document, "decode.policy gwd, parallel.tp 2")
    assert "at decode.policy gwd, parallel.tp 2: " in str(mistake)
    assert words in str(mistake)
