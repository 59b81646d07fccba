"""What each policy's docstring says that its passes are, in numbers."""

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

from simulator.decoding import Setting, policy
from simulator.replay.block_pace import BlockPace
from simulator.request import Request
from simulator.roofline import sample_passes
from simulator.schedule import ADAPTER, CONTEXT, FEATURES, LOGITS, MOVED, QUERY, Pass, Schedule
from tests.strategies import deployed, document

PROMPT, OUTPUT = 50, 41
REQUEST = Request(0, PROMPT, OUTPUT)


Store = Literal["separate", "fused", "overlapped"]


def scheduled(name: str, store: Store = "overlapped", **parameters: Any) -> Schedule:
    """The schedule of a request at these parameters."""
    deployment = deployed(document(name, {"policy": name, **parameters}))
    engine = dataclasses.replace(deployment.engine, kv_store=store)
    assert not isinstance(deployment.pace, BlockPace)
    setting = Setting(deployment.pace, engine)
    return policy(name).schedule(REQUEST, deployment.scenario.decode, setting)


def is_always(step_pass: Pass, row: int, value: int) -> bool:
    """Whether a load is the same in every step."""
    return bool((step_pass.loads[row] == value).all())


def test_ar_feeds_one_token_per_step() -> None:
    """Autoregression: one query, one LM-head row, and a cache that grows by one from the prompt."""
    schedule = scheduled("ar")
    (decode,) = schedule.passes

    assert schedule.n_steps == OUTPUT - 1
    assert is_always(decode, QUERY, 1)
    assert is_always(decode, LOGITS, 1)
    assert decode.loads[CONTEXT].tolist() == list(range(PROMPT, PROMPT + OUTPUT - 1))


def test_uno_linear_runs_two_forwards_of_a_block() -> None:
    """Uno: both forwards have B queries and logits, B - 1 pass the adapter, verify is one on."""
    schedule = scheduled("uno-linear", block=5, tokens_per_step=4.0)
    draft, verify = schedule.passes

    assert schedule.n_steps == 10
    for step_pass in (draft, verify):
        assert is_always(step_pass, QUERY, 5)
        assert is_always(step_pass, LOGITS, 5)
        assert step_pass.stack == "target"
    assert is_always(draft, ADAPTER, 4)
    assert is_always(verify, ADAPTER, 0)
    assert draft.loads[CONTEXT].tolist() == list(range(PROMPT, PROMPT + 40, 4))
    assert (verify.loads[CONTEXT] == draft.loads[CONTEXT] + 1).all()


def test_uno_tree_verifies_the_root_and_its_nodes() -> None:
    """Uno's tree: a draft of B queries, a verification of V + 1."""
    draft, verify = scheduled("uno-tree", block=5, tree_size=13, tokens_per_step=4.0).passes

    assert is_always(draft, QUERY, 5)
    assert is_always(draft, ADAPTER, 4)
    assert is_always(verify, QUERY, 14)
    assert is_always(verify, LOGITS, 14)


def test_eagle3_linear_drafts_one_token_at_a_time() -> None:
    """EAGLE-3: the drafter takes in the accepted tokens, then runs B - 1 times on one token."""
    schedule = scheduled("eagle3-linear", block=4, tokens_per_step=2.0)
    first, draft, verify = schedule.passes

    assert (first.stack, draft.stack, verify.stack) == ("eagle3", "eagle3", "target")
    accepted = [1] + [2] * (schedule.n_steps - 1)
    assert first.loads[QUERY].tolist() == accepted
    assert first.loads[FEATURES].tolist() == accepted
    assert first.eager
    assert is_always(draft, QUERY, 1)
    assert draft.launches == 3
    # The drafter's cache is a token behind the target's, and grows by a draft a launch.
    assert first.loads[CONTEXT].tolist() == [PROMPT - 1, *range(PROMPT, PROMPT + 38, 2)]
    assert (draft.loads[CONTEXT] == verify.loads[CONTEXT]).all()
    assert draft.stored_tokens == 1
    assert is_always(verify, QUERY, 5)
    assert is_always(verify, LOGITS, 5)


@pytest.mark.parametrize(("block", "levels"), [(2, 1), (7, 6), (8, 7), (16, 7)])
def test_eagle3_tree_expands_seven_levels_at_most(block: int, levels: int) -> None:
    """EAGLE-3's tree: K queries a level, block - 1 levels up to 7, then root and V nodes."""
    parameters: dict[str, Any] = {
        "block": block,
        "top_k": 3,
        "tree_size": 20,
        "tokens_per_step": 2.0,
    }
    _, level, verify = scheduled("eagle3-tree", **parameters).passes

    assert is_always(level, QUERY, 3)
    assert is_always(level, LOGITS, 3)
    assert is_always(verify, QUERY, 21)
    assert level.launches == levels


@pytest.mark.parametrize("name", ["eagle3-tree", "uno-tree"])
def test_only_trees_move_what_they_accepted(name: str) -> None:
    """The accepted path of a tree is made contiguous, token by token; a chain is already."""
    tree = scheduled(name, block=4, tree_size=6, tokens_per_step=3.0)
    chain = scheduled(name.replace("tree", "linear"), block=4, tokens_per_step=3.0)

    assert tree.passes[-1].loads[MOVED].tolist() == tree.emitted_tokens.tolist()
    assert (tree.loads[:-1, MOVED] == 0).all()
    assert (chain.loads[:, MOVED] == 0).all()


def test_dflash_drafts_a_block_in_one_forward() -> None:
    """DFlash: the drafter has B queries and B - 1 LM-head rows, verification B of both."""
    draft, verify = scheduled("dflash", block=6, tokens_per_step=4.0).passes

    assert (draft.stack, draft.launches, verify.stack) == ("dflash", 1, "target")
    assert is_always(draft, QUERY, 6)
    assert is_always(draft, LOGITS, 5)
    assert is_always(verify, QUERY, 6)
    assert is_always(verify, LOGITS, 6)


@pytest.mark.parametrize("name", ["dflash", "eagle3-linear", "eagle3-tree"])
def test_drafters_take_in_what_the_last_step_accepted(name: str) -> None:
    """The target's features that a draft starts from are those of the step before."""
    schedule = scheduled(name, block=4, tokens_per_step=1.5)

    features = schedule.passes[0].loads[FEATURES]
    assert (features[1:] == schedule.emitted_tokens[:-1]).all()


def test_self_speculation_drafts_and_verifies_a_block() -> None:
    """The target drafts B queries, all through its adapter, B - 1 with logits, and verifies B."""
    draft, verify = scheduled("self-speculation", block=6, tokens_per_step=4.0).passes

    assert (draft.stack, verify.stack) == ("target", "target")
    assert is_always(draft, QUERY, 6)
    assert is_always(draft, ADAPTER, 6)
    assert is_always(draft, LOGITS, 5)
    assert is_always(verify, QUERY, 6)
    assert is_always(verify, ADAPTER, 0)
    assert is_always(verify, LOGITS, 6)
    assert (draft.loads[CONTEXT] == verify.loads[CONTEXT]).all()


def test_the_quadratic_sampler_drafts_for_every_outcome() -> None:
    """One forward of k drafts and k + 1 groups of k masks, of which the masks are adapted."""
    schedule = scheduled("quadratic", block=5, tokens_per_step=2.5)
    (step,) = schedule.passes

    assert is_always(step, QUERY, 4 + 5 * 4)
    assert is_always(step, LOGITS, 4 + 5 * 4)
    assert is_always(step, ADAPTER, 5 * 4)
    assert schedule.n_steps == 16


def test_a_mean_launch_finds_half_of_what_the_step_drafts() -> None:
    """Four launches of three nodes find 0, 3, 6 and 9 more cached tokens: 4.5, so 4 whole ones."""
    parameters: dict[str, Any] = {"block": 5, "top_k": 3, "tree_size": 20, "tokens_per_step": 2.0}
    first, level, verify = scheduled("eagle3-tree", **parameters).passes

    mean = level.mean_loads(level.loads)
    assert level.launches == 4
    assert (mean[CONTEXT] - level.loads[CONTEXT] == 4).all()
    assert (np.delete(mean, CONTEXT, axis=0) == np.delete(level.loads, CONTEXT, axis=0)).all()
    for single in (first, verify):
        assert (single.mean_loads(single.loads) == single.loads).all()


@pytest.mark.parametrize(
    ("name", "adapted"),
    [
        ("uno-linear", {"draft"}),
        ("self-speculation", {"draft"}),
        ("quadratic", {"draft-and-verify"}),
        ("ar", set()),
    ],
)
def test_the_adapter_runs_where_tokens_pass_it(name: str, adapted: set[str]) -> None:
    """Only passes with adapted tokens pay for an adapter."""
    samples = sample_passes(deployed(document(name), model="uno-8b"))

    assert {s.name for s in samples if any(op.name == "adapter" for op in s.ops)} == adapted


@pytest.mark.parametrize("trace", ["uno-qwen3-8b-t1", "ref-uno-linear-b4-t1"])
def test_the_quadratic_sampler_has_no_free_token(trace: str) -> None:
    """It emits one token a step less than the linear sampler whose acceptance it takes."""
    parameters: dict[str, Any] = {"block": 4, "trace": trace}
    linear = deployed(document("uno-linear", {"policy": "uno-linear", **parameters})).pace
    quadratic = deployed(document("quadratic", {"policy": "quadratic", **parameters})).pace

    assert quadratic.mean_tokens == pytest.approx(linear.mean_tokens - 1)
    steps = scheduled("quadratic", **parameters).emitted_tokens
    free = scheduled("uno-linear", **parameters).emitted_tokens
    shared = min(len(steps), len(free)) - 1
    assert steps[:shared].tolist() == (free[:shared] - 1).tolist()


def test_single_block_separate_stores_with_one_more_forward() -> None:
    """One more forward per finished block: its tokens are out one forward before it ends."""
    # The prompt's whole blocks end at 48; the output's edges are 2 + 16 + 16 + 9 tokens off.
    schedule = scheduled("single-block", "separate", block=16, tokens_per_forward=2.0)
    (denoise,) = schedule.passes

    assert schedule.prefill_tokens == 48
    assert is_always(denoise, QUERY, 16)
    assert is_always(denoise, LOGITS, 16)
    # Blocks end at tokens 14, 30 and 41, so at forwards 7, 15 and 20 (41 / 2 to even); the store
    # comes last in each, and the last block's has no reader.
    out = np.flatnonzero(schedule.emitted_tokens)
    assert out.tolist() == [5, 13, 18]
    assert schedule.emitted_tokens[out].tolist() == [14, 16, 11]
    assert schedule.n_steps == 19
    assert denoise.loads[CONTEXT].tolist() == [48] * 7 + [64] * 8 + [80] * 4


def test_single_block_fused_carries_the_finished_block() -> None:
    """The first forward of each further block has twice the queries and starts a block earlier."""
    schedule = scheduled("single-block", "fused", block=16, tokens_per_forward=2.0)
    (denoise,) = schedule.passes

    twice = np.flatnonzero(denoise.loads[QUERY] == 32)
    assert twice.tolist() == [7, 15]
    assert set(np.delete(denoise.loads[QUERY], twice).tolist()) == {16}
    assert (denoise.loads[LOGITS] == denoise.loads[QUERY]).all()
    assert denoise.loads[CONTEXT].tolist() == [48] * 8 + [64] * 8 + [80] * 4


def test_joint_threshold_needs_two_forwards_per_block() -> None:
    """A block ends with a forward that changes nothing, so even a fast one has two forwards."""
    schedule = scheduled("joint-threshold", block=16, tokens_per_forward=16.0)

    assert is_always(schedule.passes[0], QUERY, 16)
    assert np.flatnonzero(schedule.emitted_tokens).tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("name", "width"), [("gwd", {"window": 3}), ("block-buffer", {"buffer": 3})]
)
def test_windows_run_whole(name: str, width: dict[str, Any]) -> None:
    """Every forward of a window of blocks runs all its rows, whether they are needed or not."""
    schedule = scheduled(name, block=8, tokens_per_forward=4.0, **width)
    (denoise,) = schedule.passes

    assert is_always(denoise, QUERY, 24)
    assert is_always(denoise, LOGITS, 24)


def test_a_buffer_of_one_block_stores_by_itself() -> None:
    """With one slot no later block carries the store, so a block has at least two forwards."""
    lone = scheduled("block-buffer", block=16, tokens_per_forward=16.0, buffer=1)
    pair = scheduled("block-buffer", block=16, tokens_per_forward=16.0, buffer=2)

    assert (lone.n_steps, pair.n_steps) == (6, 3)
