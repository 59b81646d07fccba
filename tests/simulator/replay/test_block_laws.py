"""What holds of every replay: any policy, any shipped trace that it can replay, any parameters."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import decoding
from simulator.replay.block_record import KIND, BlockTables
from simulator.replay.block_replay import BlockReplay
from simulator.replay.block_requests import resampled_requests
from simulator.replay.block_summary import replay_blocks
from simulator.request import Request
from tests.simulator.replay.shipped_blocks import (
    IntArray,
    pairs,
    parameters_of,
    run,
    shipped,
    source_of,
)
from traces.columns import numbers

SHARES = st.sampled_from([0.0, 0.1, 0.35, 0.6, 0.9, 1.0])
FREE: dict[str, st.SearchStrategy[Any]] = {
    "window": st.integers(1, 6),
    "buffer": st.integers(1, 6),
    "theta_spawn": SHARES,
    "tau_add": SHARES,
    "tau_semi": SHARES,
    "tau_act": SHARES,
    "tau_stable": SHARES,
    "post_edit_steps": st.integers(1, 64),
    "batching": st.sampled_from(["packed", "synchronous"]),
    "full_window": st.booleans(),
    "forced": st.sampled_from(["semi-complete", "always"]),
    "store": st.sampled_from(["separate", "fused"]),
}


class Bounded(BlockReplay):
    """A replay that says so instead of going on for ever."""

    def forward(self, *args: Any, **named: Any) -> None:
        """A forward, unless there have been far too many."""
        # A block is revealed and edited in fewer forwards than twice its places and some.
        most = (2 * self.block_tokens + 80) * self.masks.shape[1]
        assert self.record.count.max(initial=0) < most
        super().forward(*args, **named)


def test_every_free_parameter_is_varied() -> None:
    """A parameter that a replay may change and this file does not know fails here."""
    free = {n for policy, _ in pairs() for n in decoding.policy(policy).REPLAYS.free}

    assert free == set(FREE)


@st.composite
def replays(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    """(policy, trace, changed parameters)."""
    policy, name = draw(st.sampled_from(pairs()), label="pair")
    free = decoding.policy(policy).REPLAYS.free
    changed = draw(st.lists(st.sampled_from(free), unique=True)) if free else []
    return policy, name, {one: draw(FREE[one], label=one) for one in sorted(changed)}


def check_laws(blocks: BlockReplay, parameters: Any, policy: str) -> None:
    """Tokens, prefixes, lives and loads of all requests."""
    tables, requests = blocks.record.tables(), blocks.requests
    steps, tokens = tables.steps, blocks.block_tokens
    count = np.diff(tables.first_step)
    request = np.repeat(np.arange(len(count)), count)

    committed = np.bincount(request, steps["committed_tokens"], len(count))
    assert committed.tolist() == requests.output_tokens.tolist()
    assert min(values.min() for values in steps.values()) >= 0
    check_prefixes(steps, request)
    check_windows(steps, parameters, tokens, policy)
    check_lives(tables, blocks)
    check_local_steps(tables, tokens)


def check_prefixes(steps: Any, request: IntArray) -> None:
    """What is stored never gets less, and windows move to the right."""
    same = np.diff(request) == 0
    for name in ("window_left", "window_right"):
        assert (np.diff(steps[name])[same] >= 0).all()
    # A fused store takes the block before along, whose prefix is a block shorter.
    plain = steps["kind"] != KIND["fused-store"]
    prefix, of = steps["prefix_tokens"][plain], request[plain]
    assert (np.diff(prefix)[np.diff(of) == 0] >= 0).all()


def check_windows(steps: Any, parameters: Any, tokens: int, policy: str) -> None:
    """No more live blocks than there is room for; every forward has a block; slots are taken."""
    decodes = steps["kind"] != KIND["prefill"]
    live = (steps["window_right"] - steps["window_left"])[decodes]
    most = getattr(parameters, "window", getattr(parameters, "buffer", None))
    serial = policy not in {"gwd", "block-buffer", "multi-block", "d2f"}
    assert live.min() >= 1
    assert live.max() <= (1 if serial else most or live.max())
    padded, query = steps["padded_tokens"][decodes], steps["query_tokens"][decodes]
    assert (padded >= query).all()
    assert (query >= live * tokens).all()
    if policy == "block-buffer" or (policy == "gwd" and parameters.full_window):
        assert set(padded.tolist()) == {(most or 0) * tokens}


def check_lives(tables: BlockTables, blocks: BlockReplay) -> None:
    """Admitted, then finished, then retired, in the order of blocks, within the request."""
    life = tables.blocks
    gone = life["retired"] >= 0
    assert not blocks.masks[life["request"][gone], life["block"][gone]].any()
    assert (life["finished"][gone] >= life["admitted"][gone]).all()
    assert (life["retired"][gone] >= life["finished"][gone]).all()
    same = np.diff(life["request"]) == 0
    assert (np.diff(life["block"])[same] == 1).all()
    for name in ("admitted", "retired"):
        both = same & (life[name][:-1] >= 0) & (life[name][1:] >= 0)
        assert (np.diff(life[name])[both] >= 0).all()
    # Whatever lies behind the answer's last block may be left alone.
    kept = life["block"] <= blocks.requests.last[life["request"]]
    assert gone[kept].all()
    assert np.bincount(life["request"][kept]).tolist() == (blocks.requests.last + 1).tolist()


def check_local_steps(tables: BlockTables, tokens: int) -> None:
    """Counts stay within the block, masks never become more unless noise may come back."""
    local = tables.local_steps
    for values in local.values():
        assert values.min(initial=0) >= 0
        assert values.max(initial=0) <= tokens
    for name in ("ready", "revealed"):
        assert (local[name] <= local["masked"]).all()


def batches(name: str, parameters: Any) -> IntArray | None:
    """The captured batches where rows wait for one another."""
    return numbers(shipped(name).requests, "batch") if parameters.shares_batch else None


@settings(max_examples=60)
@given(case=replays())
def test_laws_of_captured_requests(case: tuple[str, str, dict[str, Any]]) -> None:
    """Texts of the trace under any parameters come to their end and keep every law."""
    policy, name, changes = case
    parameters = parameters_of(policy, name, **changes)

    blocks = run(policy, name, parameters, groups=batches(name, parameters), made=Bounded)

    check_laws(blocks, parameters, policy)


@settings(max_examples=60)
@given(
    case=replays(),
    lengths=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 200)), min_size=1, max_size=5, unique=True
    ),
    seed=st.integers(0, 1000),
)
def test_laws_of_drawn_requests(
    case: tuple[str, str, dict[str, Any]], lengths: list[tuple[int, int]], seed: int
) -> None:
    """Texts of any lengths under any parameters come to their end and keep every law."""
    policy, name, changes = case
    parameters = parameters_of(policy, name, **changes)
    asked = [Request(index, *pair, seed=seed) for index, pair in enumerate(lengths)]
    requests = resampled_requests(source_of(name, policy), asked)
    together = np.zeros(len(asked), dtype=np.int64) if parameters.shares_batch else None

    blocks = run(policy, name, parameters, requests, together, made=Bounded)

    check_laws(blocks, parameters, policy)


@pytest.mark.parametrize(("policy", "name"), pairs())
def test_other_policies_parameters_as_captured(policy: str, name: str) -> None:
    """Every policy on every trace it can replay: laws hold, and of its own nothing is drawn."""
    parameters = parameters_of(policy, name)

    blocks = run(policy, name, parameters, groups=batches(name, parameters), made=Bounded)

    check_laws(blocks, parameters, policy)
    if shipped(name).manifest.policy == policy:
        assert blocks.trajectories.drawn == 0


@pytest.mark.parametrize(("policy", "name"), pairs()[::5])
def test_captured_values_named_are_exact(policy: str, name: str) -> None:
    """Setting every free parameter to what it was captured with changes nothing."""
    trace = shipped(name)
    own = decoding.policy(trace.manifest.policy).REPLAYS.free
    named = {key: trace.manifest.parameters[key] for key in own if key in trace.manifest.parameters}

    found = replay_blocks(trace, {"policy": trace.manifest.policy, **named})

    assert policy in decoding.names()
    assert (found.replay, found.drawn_share) == ("exact", 0.0)


@functools.cache
def live_blocks(name: str, parameter: str, value: float) -> float:
    """Mean live blocks of the shipped trace under one changed parameter."""
    return replay_blocks(shipped(name), {parameter: value}).blocks_live


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("ref-gwd-w4-t0.0", "theta_spawn"),
        ("ref-gwd-w3-t0.3", "theta_spawn"),
        ("ref-gwd-w2-t0.6", "theta_spawn"),
        ("ref-block-buffer-n4-a0.5-m0.7", "tau_add"),
        ("ref-block-buffer-n2-a0.1-m0.7", "tau_add"),
        ("ref-multi-block-m0.7", "tau_add"),
        ("ref-d2f-a0.1-m0.7", "tau_add"),
    ],
)
def test_a_stricter_gate_does_not_widen_the_window(name: str, parameter: str) -> None:
    """Mean live blocks fall from one value to the next that is far from it; draws blur nearer ones.

    It is no law of single requests: blocks that wait meet other masks before them.
    """
    live = [live_blocks(name, parameter, value) for value in (0.0, 0.5, 1.0)]

    assert live[0] >= live[1] >= live[2]
    assert live[0] > live[2]


@pytest.mark.parametrize("steps", [1, 16, 200, 4096])
@pytest.mark.parametrize(
    "name", ["ref-joint-threshold-m0.7", "ref-block-buffer-edit", "ref-joint-threshold-block8"]
)
def test_any_budget_of_edits(name: str, steps: int) -> None:
    """A smaller one costs no more forwards; a larger one ends too."""
    if shipped(name).manifest.policy == "block-buffer" and steps > 64:
        steps = 64
    whole = replay_blocks(shipped(name), {})

    found = replay_blocks(shipped(name), {"post_edit_steps": steps})

    assert found.output_tokens == whole.output_tokens
    if steps <= whole.parameters["post_edit_steps"]:
        assert found.forwards <= whole.forwards
