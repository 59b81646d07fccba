"""What scenarios choose from by name, and what of it can be shown."""

import json
from typing import Any

import pytest

from tests.cli.command import call, small, written

LOAD = {
    "kind": "poisson",
    "rate_per_s": 50.0,
    "requests": 20,
    "prompt_tokens": 64,
    "output_tokens": 16,
}


def answered(*arguments: object) -> Any:
    """The JSON that a command prints."""
    answer = call(*arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


@pytest.mark.parametrize(
    ("kind", "singular", "field", "documented"),
    [
        ("routers", "router", "router", ["least-loaded", "power-of-two", "round-robin"]),
        ("batching", "batching", "batching.mode", ["barrier", "continuous", "draining", "static"]),
    ],
)
def test_routers_and_batching_modes_are_listed_and_told(
    kind: str, singular: str, field: str, documented: list[str]
) -> None:
    """The names are those of docs/serving.md; each says what it does, and a scenario takes it."""
    assert answered("list", kind) == documented
    scenario = written(small(workload=LOAD, parallel={"dp": 2}))
    for name in documented:
        shown = answered("show", singular, name)
        assert shown == answered("show", kind, name)
        assert shown["name"] == name
        assert shown["description"].endswith(".")
        assert answered("run", scenario, "--set", f"{field}={name}")["metrics"]


def test_an_unknown_router_is_told_the_known_ones() -> None:
    """The nearest name is proposed."""
    answer = call("show", "routers", "round-robbin")

    assert answer.code == 1
    assert "did you mean round-robin?" in answer.err


@pytest.mark.parametrize("kind", ["poisson", "trace", "captured"])
def test_what_a_file_says_is_no_field_to_show(kind: str) -> None:
    """Fields that the program fills in from a file cannot be given, so they are not shown."""
    names = {field["name"] for field in answered("show", "workloads", kind)["parameters"]}

    assert names
    for name in names - {"kind"}:
        refused = call("run", written(small(workload={"kind": kind, name: {"no": "value"}})))
        assert f"workload.{name}: is what" not in refused.err
    assert "survey" not in names
