"""What is on record of every iteration and forward, and that the simulator counts the same."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kernels_ref.decoders import policy_names, speculator
from kernels_ref.decoders.eagle3_tree import MOST_LEVELS
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.query import ModelFacts
from simulator import decoding, library
from simulator.decoding import Setting
from simulator.pace import PacedSteps
from simulator.request import Request as Simulated
from simulator.schedule import Schedule
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.continuing import CASES, Settings, continued
from tests.kernels_ref.speculation.drawn import BATCHES, FACTS, settings_of
from tests.kernels_ref.speculation.table_model import DRAFTERS, MASK, TableModel
from tests.simulator.replay.shipped_iterations import LOADS, forwards_of


def most_tokens(name: str, case: Settings) -> int:
    """The most that an iteration may emit."""
    if name == "ar":
        return 1
    block = int(case["block"])
    return block if name in {"dflash", "self-speculation"} else block + 1


def draft_forwards(name: str, case: Settings) -> int:
    """How many an iteration has."""
    if name == "eagle3-linear":
        return int(case["block"])
    if name == "eagle3-tree":
        return 1 + min(int(case["block"]) - 1, MOST_LEVELS)
    return 0 if name == "ar" else 1


def check_iterations(name: str, row: Continuation, case: Settings) -> None:
    """Counts that hold together, and nothing cut but at the end."""
    guaranteed = speculator(name).GUARANTEED_TOKENS
    stored = row.prompt_tokens
    iterations = row.record.iterations
    for each in iterations:
        assert each.prefix_tokens == stored
        stored += each.emitted
        assert 0 <= each.accepted <= each.drafted <= each.nodes
        assert 1 <= each.emitted <= each.accepted + guaranteed <= most_tokens(name, case)
        assert each.cut == (each.emitted < each.accepted + guaranteed)
    assert not any(each.cut for each in iterations[:-1])
    ended = row.finish_reason == "end"
    assert 1 + sum(each.emitted for each in iterations) == len(row.output()) + ended
    assert len(row.output()) + ended <= row.output_end - row.prompt_tokens
    assert (len(row.tokens) == row.output_end) or ended


def check_steps(name: str, row: Continuation, case: Settings) -> None:
    """A prefill, then for each iteration its drafts and one verification."""
    record = row.record
    prefill, *steps = record.steps
    assert (prefill.kind, prefill.iteration) == ("prefill", -1)
    assert (prefill.query_tokens, prefill.logit_rows) == (row.prompt_tokens, 1)
    for number, iteration in enumerate(record.iterations):
        *drafts, verification = [step for step in steps if step.iteration == number]
        assert [step.kind for step in drafts] == ["draft"] * draft_forwards(name, case)
        assert verification.kind == "verify"
        assert verification.query_tokens == verification.logit_rows == iteration.nodes + 1
        moved = iteration.emitted if name.endswith("tree") else 0
        assert verification.moved_tokens == moved
        assert not any(step.moved_tokens for step in drafts)
    assert [step.iteration for step in steps] == sorted(step.iteration for step in steps)
    assert all(0 < step.logit_rows <= step.query_tokens for step in steps)
    adapted = sum(step.adapter_tokens for step in steps)
    assert (adapted > 0) == (bool(record.iterations) and "adapters" in str(drafter_of(name)))


def drafter_of(name: str) -> str | None:
    """The kind of drafter that policy *name* needs."""
    return speculator(name).DRAFTER


@pytest.mark.parametrize("name", policy_names("iterations"))
@settings(max_examples=20)
@given(data=st.data(), batch=BATCHES, seed=st.integers(0, 2**31))
def test_records_keep_the_laws(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """At any setting, with any drafter, for any prompt."""
    drafter = DRAFTERS[data.draw(st.sampled_from(["oracle", "stranger", "even", "narrow"]))]
    case = data.draw(settings_of(name))
    for row in continued(TableModel(FACTS, drafter, seed), name, case, batch).rows:
        check_iterations(name, row, case)
        check_steps(name, row, case)


@pytest.mark.parametrize("name", policy_names("iterations"))
def test_all_or_nothing_is_accepted(name: str) -> None:
    """The target as drafter gets the most there is, a hopeless one the least: bounds are met."""
    for case in [dict(case) for policy, case in CASES if policy == name]:
        chains = {**case, "top_k": 1, "tree_size": case["block"]} if "top_k" in case else case
        facts = ModelFacts(MASK, (), 4, 128, 9)
        emitted = [
            continued(TableModel(facts, DRAFTERS[drafter], 3), name, chains, [Request((0,), 60)])
            .rows[0].record.iterations
            for drafter in ("oracle", "stranger")
        ]  # fmt: skip
        assert max(each.emitted for each in emitted[0]) == most_tokens(name, chains)
        least = speculator(name).GUARANTEED_TOKENS
        assert min(each.emitted for each in emitted[1][:-1]) == least


PROMPT, OUTPUT = (0, 2, 5, 4), 33
WIDE = ModelFacts(MASK, (), 4, 64, 30)
"""So many tokens that a tree never lacks candidates."""
SIMULATED = [
    ("ar", {}),
    ("uno-linear", {"block": 4}),
    ("uno-tree", {"block": 4, "top_k": 3, "tree_size": 8}),
    ("eagle3-linear", {"block": 4}),
    ("eagle3-tree", {"block": 4, "top_k": 3, "tree_size": 8}),
    ("eagle3-tree", {"block": 8, "top_k": 2, "tree_size": 12}),
    ("dflash", {"block": 5}),
    ("self-speculation", {"block": 5}),
]


class Replayed:
    """The pace of a record."""

    mean_tokens = 1.0
    replay = "replayed"

    def __init__(self, row: Continuation) -> None:
        """That of *row*."""
        self._emitted = np.array([each.emitted for each in row.record.iterations])

    def steps(self, request: Simulated) -> PacedSteps:
        """As they were."""
        assert self._emitted.sum() == request.output_tokens - 1
        return PacedSteps(self._emitted)


def scheduled(name: str, case: Settings, row: Continuation) -> Schedule:
    """What the simulator makes of a request that emits as *row* did."""
    module = decoding.policy(name)
    parameters = TypeAdapter(module.Parameters).validate_python({"policy": name, **case})
    setting = Setting(Replayed(row), library.ENGINES.get("ideal"))
    return module.schedule(Simulated(0, len(PROMPT), OUTPUT), parameters, setting)


@pytest.mark.parametrize("drafter", ["oracle", "even"])
@pytest.mark.parametrize(("name", "case"), SIMULATED)
def test_the_simulator_counts_the_same(name: str, case: dict[str, Any], drafter: str) -> None:
    """Queries, context, logits, adapters, features and moves of every forward of a request."""
    model = TableModel(WIDE, DRAFTERS[drafter], seed=4)
    (row,) = continued(model, name, case, [Request(PROMPT, OUTPUT)]).rows

    found = forwards_of(scheduled(name, case, row), len(PROMPT))

    steps = [[getattr(step, column) for column in LOADS] for step in row.record.steps[1:]]
    assert found.tolist() == steps


def test_names_and_defaults_are_the_simulator_s() -> None:
    """What a policy of both is given is called the same, and a tree is as large."""
    for name in policy_names("iterations"):
        if name not in decoding.names():
            continue
        ours = vars(speculator(name).Parameters())
        theirs = vars(
            TypeAdapter(decoding.policy(name).Parameters).validate_python({"policy": name})
        )
        shared = {"policy", "block", "top_k", "tree_size"} & set(theirs)
        assert shared <= set(ours)
        assert all(ours[field] == theirs[field] for field in shared - {"block"})
