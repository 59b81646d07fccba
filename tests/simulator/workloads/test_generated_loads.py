"""Generated open loads: what they say of themselves, what no change moves, what is refused."""

import dataclasses
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy

from simulator import workloads
from simulator.documents import DocumentError, check
from simulator.request import Request
from tests.simulator.workloads.open_loads import GENERATED, LENGTHS, load, requests


@pytest.mark.parametrize("kind", GENERATED)
def test_more_requests_change_none_before(kind: str, tmp_path: Path) -> None:
    """A longer run, across chunks of draws, begins with the shorter one's requests."""
    table = tmp_path / "lengths.csv"
    table.write_text("prompt_tokens,output_tokens\n5,1\n6,2\n7,3\n", encoding="utf-8")
    fields = {"lengths": str(table), "shared_prefix_tokens": 4, "prefix_groups": 9}
    long = requests(load(kind, rate_per_s=2.0, requests=9000, **fields), 3)

    for n_requests in (1, 2, 4095, 4096, 4097, 8999):
        short = requests(load(kind, rate_per_s=2.0, requests=n_requests, **fields), 3)
        assert short == long[:n_requests]


@pytest.mark.parametrize("kind", ["gamma", "poisson"])
def test_a_duration_is_a_cut(kind: str) -> None:
    """All requests before *duration_s* are those of a count, up to there."""
    counted = requests(load(kind, rate_per_s=5.0, requests=3000, **LENGTHS), 1)
    end_s = counted[2000].arrival_s

    timed = requests(load(kind, rate_per_s=5.0, duration_s=end_s, **LENGTHS), 1)

    assert timed == counted[:2000]


@pytest.mark.parametrize("kind", ["gamma", "poisson"])
def test_seeds_differ(kind: str) -> None:
    """No arrival of one seed is one of another; the same seed gives the same."""
    parameters = load(kind, rate_per_s=5.0, requests=500, **LENGTHS)
    first, again, other = (requests(parameters, seed) for seed in (1, 1, 2))

    assert first == again
    assert not {r.arrival_s for r in first} & {r.arrival_s for r in other}


@pytest.mark.parametrize("kind", GENERATED)
def test_twice_the_rate_is_half_the_time(kind: str) -> None:
    """The rate is a unit of time and nothing else."""
    slow, fast = (
        requests(load(kind, rate_per_s=rate, requests=200, **LENGTHS), 1) for rate in (2.0, 4.0)
    )

    assert [r.arrival_s for r in fast] == pytest.approx([r.arrival_s / 2 for r in slow])


def test_lengths_do_not_move_arrivals(tmp_path: Path) -> None:
    """Where lengths come from changes no arrival, nor does a shared prefix."""
    table = tmp_path / "lengths.csv"
    table.write_text("prompt_tokens,output_tokens\n5,1\n60,2\n", encoding="utf-8")
    fixed, drawn, shared = (
        requests(load("poisson", rate_per_s=2.0, requests=50, **fields), 3)
        for fields in (
            LENGTHS,
            {"lengths": str(table)},
            LENGTHS | {"shared_prefix_tokens": 64, "prefix_groups": 3},
        )
    )

    assert [r.arrival_s for r in fixed] == [r.arrival_s for r in drawn]
    assert [r.arrival_s for r in fixed] == [r.arrival_s for r in shared]
    assert all((r.prefix, r.prefix_block_tokens) == ((), 0) for r in fixed)
    assert {(r.prefix, r.prefix_block_tokens) for r in shared} == {((g,), 64) for g in range(3)}


@pytest.mark.parametrize("kind", GENERATED)
def test_a_load_says_what_it_is(kind: str) -> None:
    """Open, of so many requests, none longer than it says."""
    parameters = load(kind, rate_per_s=2.0, requests=50, **LENGTHS)

    assert not parameters.is_closed
    assert (parameters.n_requests, parameters.most_together) == (50, 50)
    assert parameters.longest_tokens == 110
    assert parameters.example == Request(0, 100, 10)
    assert parameters.notes == ()


def test_a_duration_leaves_the_number_open() -> None:
    """How many requests arrive until then is not known before they do."""
    parameters = load("poisson", rate_per_s=2.0, duration_s=10.0, **LENGTHS)

    assert parameters.n_requests is None
    assert parameters.most_together >= 100_000_000


def test_a_table_says_how_long_requests_are(tmp_path: Path) -> None:
    """The longest row, the mean row, and in words where lengths are from and what was cut."""
    table = tmp_path / "lengths.csv"
    table.write_text("prompt_tokens,output_tokens\n10,40\n30,2\n50,0\n", encoding="utf-8")
    clip = {"most_output_tokens": 30, "zero_lengths": "skip"}

    parameters = load("gamma", rate_per_s=2.0, requests=5, lengths=str(table), **clip)

    assert parameters.longest_tokens == 40
    assert parameters.example == Request(0, 20, 16)
    assert parameters.notes == (
        f"lengths are drawn from the 2 rows of {table} (format lengths)",
        "outputs clipped to 30 tokens: 1",
        "rows with a length of zero, left out: 1",
    )
    assert {(r.prompt_tokens, r.output_tokens) for r in requests(parameters)} <= {(10, 30), (30, 2)}


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        (
            {"rate_per_s": 0},
            "workload.rate_per_s: must be greater than or equal to 0.000001, got 0",
        ),
        (
            {"rate_per_s": -2.0},
            "workload.rate_per_s: must be greater than or equal to 0.000001, got -2.0",
        ),
        ({"rate_per_s": float("inf")}, "workload.rate_per_s: must be a finite number, got inf"),
        ({"rate_per_s": float("nan")}, "workload.rate_per_s: must be a finite number, got nan"),
        ({"rate_per_s": "8"}, "workload.rate_per_s: must be a number, got '8'"),
        ({"rate_per_s": True}, "workload.rate_per_s: must be a number, got True"),
        ({"rate_per_s": 1e10}, "workload.rate_per_s: must be less than or equal to 1"),
        ({}, "workload.rate_per_s: a required field is missing"),
        ({"rate_per_s": 1, "requests": 0}, "workload.requests: must be greater than or equal to 1"),
        ({"rate_per_s": 1, "duration_s": 0}, "workload.duration_s: must be greater than 0, got 0"),
        ({"rate_per_s": 1, "output_tokens": 0}, "workload.output_tokens: must be greater"),
        ({"rate_per_s": 1, "survey": None}, "workload.survey: is what the file says; leave it out"),
        ({"rate_per_s": 1, "lenghts": "x"}, "did you mean lengths"),
        ({"rate_per_s": 1, "zero_lengths": "x"}, "must be 'reject' or 'skip', got 'x'"),
    ],
)
def test_wrong_fields_are_told(fields: dict[str, Any], mistake: str) -> None:
    """The field, the rule and the value; a rate of zero first of all."""
    _, mistakes = check(workloads.workload("poisson").Parameters, fields, "workload")

    assert mistake in "\n".join(map(str, mistakes))


@pytest.mark.parametrize("cv", [0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_variation_is_positive(cv: float) -> None:
    """Gaps without variation are the constant kind; without bound they are none."""
    fields = {"rate_per_s": 1, "cv": cv}

    _, mistakes = check(workloads.workload("gamma").Parameters, fields, "workload")

    assert [mistake.where for mistake in mistakes] == ["workload.cv"]


@pytest.mark.parametrize(
    ("fields", "mistakes"),
    [
        (LENGTHS, ["workload: give one of requests and duration_s"]),
        (
            LENGTHS | {"requests": 1, "duration_s": 1.0},
            ["workload: give one of requests and duration_s"],
        ),
        (
            {},
            [
                "workload: give one of requests and duration_s",
                "workload: give prompt_tokens and output_tokens, or lengths: a table",
            ],
        ),
        (
            {"requests": 1, "prompt_tokens": 3},
            ["workload: give prompt_tokens and output_tokens, or lengths: a table"],
        ),
        (
            {"requests": 1, "lengths": "x", "output_tokens": 3},
            ["workload: give prompt_tokens and output_tokens, or lengths: a table"],
        ),
        (
            LENGTHS | {"requests": 1, "most_prompt_tokens": 3},
            ["workload.most_prompt_tokens: clips the rows of lengths; there is no table"],
        ),
        (
            LENGTHS | {"requests": 1, "shared_prefix_tokens": 101},
            ["workload.shared_prefix_tokens: is at most prompt_tokens, 100, got 101"],
        ),
        (
            LENGTHS | {"requests": 1, "prefix_groups": 2},
            ["workload.prefix_groups: share shared_prefix_tokens, which is 0"],
        ),
        (
            {"requests": 1, "lengths": "/"},
            ["workload.lengths: /: is a folder; a file is needed"],
        ),
    ],
)
def test_what_does_not_go_together_is_told(fields: dict[str, Any], mistakes: list[str]) -> None:
    """Counts, lengths and prefixes that contradict each other, all at once."""
    with pytest.raises(DocumentError) as caught:
        load("poisson", rate_per_s=1.0, **fields)

    assert list(map(str, caught.value.mistakes)) == mistakes


def test_an_unknown_format_of_lengths_is_told() -> None:
    """The nearest known ones are named."""
    with pytest.raises(DocumentError, match=r"workload\.lengths_format: .* did you mean azure"):
        load("poisson", rate_per_s=1.0, requests=1, lengths="x", lengths_format="azur")


def test_a_load_without_any_request_is_told() -> None:
    """A duration that ends before anything arrives is no run."""
    parameters = load("poisson", rate_per_s=1e-6, duration_s=1.0, **LENGTHS)
    environment = simpy.Environment()

    with pytest.raises(DocumentError, match=r"workload\.duration_s: no request arrives in it"):
        workloads.workload("poisson").drive(
            environment, parameters, 0, lambda _: environment.event()
        )


def test_memory_does_not_grow_with_the_requests() -> None:
    """Requests are made as they are asked for."""
    peaks = []
    for n_requests in (5_000, 50_000):
        parameters = load("poisson", rate_per_s=1.0, requests=n_requests, **LENGTHS)
        module: Any = workloads.workload("poisson")
        tracemalloc.start()
        assert sum(1 for _ in module.requests(parameters, 0)) == n_requests
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 1.1 * peaks[0] + 50_000


@pytest.mark.parametrize("kind", workloads.names())
def test_what_files_say_is_a_field(kind: str) -> None:
    """What a document leaves out, because a file says it, is a field of the parameters."""
    schema = workloads.workload(kind).Parameters

    assert set(getattr(schema, "FOUND", ())) <= {field.name for field in dataclasses.fields(schema)}
    for name in ("is_closed", "n_requests", "most_together", "longest_tokens", "example", "notes"):
        assert isinstance(getattr(schema, name), property)


def test_arrivals_never_go_back() -> None:
    """Even gaps that round to nothing keep the order."""
    made = requests(load("gamma", rate_per_s=1.0, cv=30.0, requests=5000, **LENGTHS), 2)

    assert (np.diff([request.arrival_s for request in made]) >= 0).all()
