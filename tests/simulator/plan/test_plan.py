"""A plan as a whole, on evenly spaced requests of equal service, of which everything is known.

A replica with a batch of one is a server then. Replicas that are taken in turn never let anybody
wait while they are as many as the load, arrivals a service; with fewer the queue grows.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from simulator.documents import DocumentError
from simulator.execution.pool import TaskLostError, ThisProcess
from simulator.plan.evaluation import Effort
from simulator.plan.objective import objectives_of
from simulator.plan.plan import Candidate, Question, plan
from simulator.plan.searches import RATE_STEP
from simulator.price import GpuPrices
from simulator.request import Request
from simulator.result import run
from simulator.scenario import with_settings
from tests.strategies import deployed, document, files_read_once, open_document, play

A = TypeVar("A")
B = TypeVar("B")

ONE_AT_A_TIME = {"max_batch": 1}
PROMPT, REQUESTS = 64, 300
FAST, SLOW = "h200-sxm", "h100-sxm"
SOON = "ttft_p99=25ms"


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Any:
    with files_read_once():
        yield


def base(rate_per_s: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Requests of one token, evenly spaced."""
    load = {"kind": "constant", "rate_per_s": rate_per_s, "requests": REQUESTS}
    lengths = {"prompt_tokens": PROMPT, "output_tokens": 1}
    return document("ar") | {"workload": load | lengths, "batching": ONE_AT_A_TIME} | fields


@cache
def service_s(hardware: str = FAST) -> float:
    """Seconds that a request takes alone."""
    deployment = deployed(document("ar"), batching=ONE_AT_A_TIME, hardware=hardware)
    return play(deployment, [Request(0, PROMPT, 1)]).replica.records.requests[0].finished_s


def planned(
    scenario: dict[str, Any],
    *options: str,
    candidates: Sequence[tuple[str, dict[str, Any]]] = (("it", {}),),
    most_replicas: int = 32,
    pool: Any = None,
    **question: Any,
) -> dict[str, Any]:
    """The plan for a scenario and objectives."""
    asked = Question(
        objectives=objectives_of(options or [SOON]),
        effort=Effort(2, 4, most_replicas),
        **question,
    )
    return plan(scenario, [Candidate(*each) for each in candidates], asked, pool or ThisProcess())


@pytest.mark.parametrize("load", [0.5, 1.0, 1.7, 2.4, 5.9])
def test_the_fewest_replicas_are_the_load_rounded_up(load: float) -> None:
    """Everybody is served at once with so many, and it is said what one fewer would do."""
    (row,) = planned(base(load / service_s()))["rows"]

    assert row["replicas"] == row["gpus"] == math.ceil(load)
    assert row["estimates"][0]["mean"] == pytest.approx(service_s(), rel=1e-9)
    assert row["estimates"][0]["half_width"] == 0.0
    assert row["rate_per_s"] == load / service_s()
    if load <= 1:
        assert (row["beyond"], row["binds"]) == (None, "ttft_p99")
    else:
        assert row["beyond_what"].startswith(f"with {math.ceil(load) - 1} replica")
        assert row["beyond"]
        assert row["binds"] in {"ttft_p99", "capacity"}


def test_the_rate_of_the_question_comes_before_the_scenarios() -> None:
    """One server is enough for the scenario's; three are needed for the other."""
    answer = planned(base(0.5 / service_s()), rate_per_s=2.5 / service_s())

    assert answer["rate_per_s"] == answer["rows"][0]["rate_per_s"] == 2.5 / service_s()
    assert answer["rows"][0]["replicas"] == 3


@pytest.mark.parametrize(
    ("load", "kept"),
    [(2.2, ("met", "met")), (2.5, ("met", "missed")), (2.9, ("missed", "missed"))],
)
def test_headroom_is_what_more_load_leaves(load: float, kept: tuple[str, str]) -> None:
    """Three servers stand up to three: 2.2 grow to 2.75, 2.5 to 2.75 and 3.125, 2.9 to 3.19."""
    (row,) = planned(base(load / service_s()))["rows"]

    assert [each["load"] for each in row["headroom"]] == [1.1, 1.25]
    assert tuple(each["answer"] for each in row["headroom"]) == kept


BOTH = [("slow", {"hardware": SLOW}), ("fast", {"hardware": FAST})]


def between_the_gpus() -> float:
    """A rate for which three of the fast ones are enough and four of the slow ones are needed."""
    rate_per_s = 2.9 / service_s(FAST)
    assert 3 < rate_per_s * service_s(SLOW) < 4
    return rate_per_s


def test_fewer_gpus_come_first() -> None:
    """Whatever the order of the candidates."""
    answer = planned(base(between_the_gpus()), candidates=BOTH)

    assert answer["ranked_by"] == "gpus"
    assert [(row["name"], row["gpus"]) for row in answer["rows"]] == [("fast", 3), ("slow", 4)]


def test_what_costs_less_comes_first_where_prices_are_given() -> None:
    """Four GPUs at 2 an hour are cheaper than three at 4: 8 against 12 for the same tokens."""
    prices = GpuPrices(2.0, {FAST: 4.0})

    answer = planned(base(between_the_gpus()), candidates=BOTH, prices=prices)

    assert answer["ranked_by"] == "cost"
    assert [row["name"] for row in answer["rows"]] == ["slow", "fast"]
    for row, hour in zip(answer["rows"], (8.0, 12.0), strict=True):
        by_hand = hour / 3600 / row["output_tokens_per_s"] * 1e6
        assert row["cost_per_million_output_tokens"] == pytest.approx(by_hand)
        assert row["output_tokens_per_s"] == pytest.approx(between_the_gpus(), rel=0.02)


def test_a_price_for_some_ranks_by_gpus() -> None:
    """The cost of the others is not known."""
    prices = GpuPrices(None, {SLOW: 0.01})

    answer = planned(base(between_the_gpus()), candidates=BOTH, prices=prices)

    assert answer["ranked_by"] == "gpus"
    assert [row["name"] for row in answer["rows"]] == ["fast", "slow"]
    assert answer["rows"][0]["cost_per_million_output_tokens"] is None


def test_among_equals_the_one_with_more_room_is_first() -> None:
    """One GPU each; the fast one leaves more of the limit. Of the same, the order is kept."""
    candidates = [*BOTH, ("again", {"hardware": FAST})]

    answer = planned(base(0.5 / service_s(SLOW)), candidates=candidates)

    assert [row["name"] for row in answer["rows"]] == ["fast", "again", "slow"]


def test_what_is_not_possible_is_a_row_with_its_reason() -> None:
    """No scenario, more replicas than are tried, a floor that an idle one has; all at the end."""
    limit_s = (service_s(FAST) + service_s(SLOW)) / 2
    candidates: list[tuple[str, dict[str, Any]]] = [
        ("wrong", {"decode": {"policy": "arr"}}),
        ("idle", {"hardware": SLOW}),
        ("fits", {"batching": {"max_batch": 2}}),
        ("big", {"model": "llama-3-70b"}),
    ]
    scenario = base(0.9 / service_s())

    answer = planned(scenario, f"ttft_p99={limit_s}", candidates=candidates)

    assert answer["rows"][0]["name"] == "fits"
    reasons = {row["name"]: row["reason"] for row in answer["rows"] if not row["is_met"]}
    assert "no policy 'arr'" in reasons["wrong"]
    assert reasons["idle"].startswith("even an idle replica has ttft_p99")
    assert len(reasons) == 3
    assert all("scenario" not in row for row in answer["rows"][1:])


def test_more_replicas_than_are_tried_are_not_possible() -> None:
    """Three are needed and two are tried: the row says what they miss."""
    (row,) = planned(base(2.5 / service_s()), most_replicas=2)["rows"]

    assert not row["is_met"]
    assert row["reason"].startswith("with 2 replicas, the most that are tried: ")


def test_a_rate_beyond_all_replicas_is_told_without_a_run_of_it() -> None:
    """A million a second need thousands of servers: nothing of that size is simulated."""
    (row,) = planned(base(1e6))["rows"]

    assert row["runs"] == 2
    words = row["reason"].split()
    assert row["reason"].endswith("replicas are needed; at most 32 are tried")
    # The search begins at four fifths of what a full replica serves.
    assert int(words[1].replace(",", "")) == pytest.approx(1e6 * service_s() / 0.8, rel=0.01)


def test_a_floor_that_nobody_can_keep_ends_the_plan() -> None:
    """The mistake is each candidate's, with what an idle replica has and what was asked."""
    with pytest.raises(DocumentError) as caught:
        planned(base(), "ttft_p99=1ms", "latency_p50=1s", candidates=BOTH)

    told = str(caught.value)
    for name, hardware in (("slow", SLOW), ("fast", FAST)):
        idle_ms = 1e3 * service_s(hardware)
        assert f"{name}: even an idle replica has ttft_p99 {idle_ms:.3g} ms (at most 1 ms)" in told


@pytest.mark.parametrize("option", ["requests_per_s>=3", "output_tokens_per_s>=3"])
def test_more_than_comes_cannot_be_asked_for(option: str) -> None:
    """Two requests of a token come in a second: no number of replicas serves three."""
    with pytest.raises(DocumentError, match="all that comes, served at once, has"):
        planned(base(2.0), option)


def test_candidates_that_are_no_scenarios_are_told_as_such() -> None:
    """Where there is no other."""
    with pytest.raises(DocumentError, match="no policy 'arr'"):
        planned(base(), candidates=[("wrong", {"decode": {"policy": "arr"}})])


def test_the_highest_rate_is_what_the_replicas_serve() -> None:
    """Three servers keep up with three arrivals a service, and the rate is found to its step."""
    answer = planned(base(), is_for_highest_rate=True, gpus=3)

    (row,) = answer["rows"]
    assert (answer["seeks"], answer["ranked_by"]) == ("highest rate", "rate")
    assert row["replicas"] == row["gpus"] == 3
    # The rates that are tried are powers of the step; a short queue keeps the limit, too.
    assert 3 / RATE_STEP <= row["rate_per_s"] * service_s() <= 3 * 1.05


def test_the_highest_rate_and_the_fewest_replicas_agree() -> None:
    """The rate that two replicas serve needs two, and a twentieth more needs three."""
    scenario = base() | {"seed": 3}
    (row,) = planned(scenario, is_for_highest_rate=True, gpus=2)["rows"]

    needed = [
        planned(scenario, rate_per_s=row["rate_per_s"] * factor)["rows"][0]["replicas"]
        for factor in (1.0, 1.05)
    ]

    assert needed == [2, 3]


def test_more_gpus_come_by_whole_replicas() -> None:
    """Of five GPUs two replicas of two are made; of one there is none."""
    scenario = base(parallel={"tp": 2})

    (row,) = planned(scenario, is_for_highest_rate=True, gpus=5)["rows"]

    assert (row["replicas"], row["gpus"]) == (2, 4)
    with pytest.raises(DocumentError, match="at least 2 are needed, got 1"):
        planned(scenario, is_for_highest_rate=True, gpus=1)


def test_replicas_that_fill_count_as_gpus() -> None:
    """They stay as many as they are, beside those that are sought."""
    split = {"prefill_replicas": 2, "link_bytes_per_s": 5e10}
    scenario = open_document("ar") | {"disaggregation": split, "batching": {"max_batch": 4}}
    scenario["workload"] |= {"rate_per_s": 2.0, "requests": 300}

    (row,) = planned(scenario, "latency_p50=10s")["rows"]

    assert (row["replicas"], row["gpus"]) == (1, 3)
    with pytest.raises(DocumentError, match="at least 3 are needed, got 2"):
        planned(scenario, "latency_p50=10s", is_for_highest_rate=True, gpus=2)


def test_the_scenario_of_a_row_gives_its_values() -> None:
    """Its first seed's, to the last digit; the settings are what differs from the base."""
    scenario = base() | {"seed": 5}
    scenario["workload"] |= {"kind": "poisson", "requests": 1200}
    options = ("ttft_p90=40ms", "latency_mean=30ms")

    (row,) = planned(scenario, *options, rate_per_s=1.5 / service_s())["rows"]

    metrics = run(deployed(row["scenario"])).summary["metrics"]
    values = {each["objective"]: each["by_seed"] for each in row["estimates"]}
    assert values["ttft_p90"][0] == metrics["ttft_s"]["p90"]
    assert values["latency_mean"][0] == metrics["latency_s"]["mean"]
    assert with_settings(scenario, row["run_settings"]) == row["scenario"]
    assert len(values["ttft_p90"]) == row["seeds"] >= 2
    assert row["estimates"][0]["mean"] == pytest.approx(np.mean(values["ttft_p90"]))


def test_goodput_is_kept_or_missed_as_a_share() -> None:
    """Nobody waits with three servers for 2.5, so all are within a limit above the service."""
    scenario = base(2.5 / service_s(), slo={"ttft": 1.5 * service_s()})

    (row,) = planned(scenario, "goodput>=0.99")["rows"]

    assert row["replicas"] == 3
    assert row["estimates"][0]["mean"] == 1.0


def test_a_trace_needs_as_many_as_its_arrivals(tmp_path: Path) -> None:
    """It is run with two seeds at first and, as they agree, with one after that."""
    path = tmp_path / "requests.csv"
    gap_s = service_s() / 2.5
    rows = [f"{i * gap_s!r},{PROMPT},1" for i in range(REQUESTS)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n", "utf-8")
    scenario = base() | {"workload": {"kind": "trace", "file": str(path)}}

    (row,) = planned(scenario)["rows"]
    (faster,) = planned(scenario, rate_per_s=4.5 / service_s())["rows"]

    assert (row["replicas"], faster["replicas"]) == (3, 5)
    assert faster["scenario"]["workload"]["rate_scale"] == pytest.approx(4.5 / 2.5, rel=1e-9)


class Losing(ThisProcess):
    """A pool in which whatever runs on the slow GPU kills its process."""

    def submit(self, function: Callable[[A], B], argument: A) -> "Future[B]":
        """A future that is done, or lost."""
        trial: Any = argument
        if trial.document["hardware"] == FAST:
            return super().submit(function, argument)
        lost: Future[B] = Future()
        lost.set_exception(TaskLostError("its process died"))
        return lost


def test_a_candidate_whose_runs_die_is_not_possible() -> None:
    """The others have their rows all the same."""
    answer = planned(base(0.5 / service_s()), candidates=BOTH, pool=Losing())

    assert [row["name"] for row in answer["rows"]] == ["fast", "slow"]
    assert answer["rows"][1]["reason"] == "its process died"


def test_candidates_are_told_as_they_end() -> None:
    """Once each, those that are no scenario left out."""
    ended: list[None] = []
    asked = Question(objectives=objectives_of([SOON]), effort=Effort(2, 4, 8))
    candidates = [Candidate(*each) for each in (*BOTH, ("wrong", {"engine": "none"}))]

    plan(base(), candidates, asked, ThisProcess(), advance=lambda: ended.append(None))

    assert len(ended) == 2
