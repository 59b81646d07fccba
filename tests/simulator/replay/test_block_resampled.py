"""Resampled replay: requests of other lengths, drawn from the blocks of a trace."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from simulator.replay.block_pace import BlockPace
from simulator.replay.block_record import BlockTables
from simulator.request import Request
from simulator.schedule import Schedule
from tests.simulator.replay.shipped_blocks import (
    IntArray,
    captured_tables,
    pairs,
    parameters_of,
    shipped,
    source_of,
)

# One after another, so what a block does has no neighbour in it; and two live blocks at most.
BY_THEMSELVES = (
    "ref-single-block-m0.9",
    "ref-single-block-fused",
    "ref-joint-threshold-m0.9",
    "ref-dmax",
    "ref-block-entropy",
    "ref-gwd-w1",
    "ref-gwd-w2-t0.6",
)
DEEP = ("ref-gwd-w4-t0.0", "ref-block-buffer-n3-a0.1-m0.7", "ref-multi-block-m0.7")
OWN = sorted(
    (policy, name)
    for policy, name in pairs()
    if shipped(name).manifest.policy == policy and "synchronous" not in name
)


def pace_of(name: str) -> BlockPace:
    """The pace that a trace says for its own policy and parameters."""
    policy = shipped(name).manifest.policy
    return BlockPace(shipped(name), policy, parameters_of(policy, name))


@functools.cache
def long_answers(name: str) -> BlockTables:
    """64 requests of 1000 output tokens, thousands of blocks."""
    requests = [Request(row, 100 + row, 1000, seed=1) for row in range(64)]
    return pace_of(name).replayed(requests).record.tables()


def is_inner(tables: BlockTables) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Blocks that are neither the first nor the last of a request of 1000 tokens."""
    request, block = tables.blocks["request"], tables.blocks["block"]
    last = np.zeros(request.max() + 1, dtype=np.int64)
    np.maximum.at(last, request, block)
    inner: np.ndarray[tuple[int], np.dtype[np.bool_]] = (block > 0) & (block < last[request])
    return inner


def gaps(tables: BlockTables) -> IntArray:
    """Forwards from the retirement of the block before to a block's own, [blocks]."""
    return np.diff(tables.blocks["retired"], prepend=0)


def as_lists(schedule: Schedule) -> list[object]:
    """A schedule as what compares."""
    loads = [each.loads.tolist() for each in schedule.passes]
    return [schedule.emitted_tokens.tolist(), loads, schedule.prefill_tokens]


@pytest.mark.parametrize(("policy", "name"), OWN)
def test_a_request_depends_on_its_key_alone(policy: str, name: str) -> None:
    """Not on whom it is scheduled with or when, but on seed and index."""
    pace = pace_of(name)
    one, other = Request(4, 33, 150, seed=2), Request(9, 50, 90, seed=2)

    alone = as_lists(pace.schedules([one])[0])

    assert policy == pace.policy
    assert as_lists(pace.schedules([other, one])[1]) == alone
    assert as_lists(pace.schedules([one, other, Request(7, 5, 300)])[0]) == alone
    assert as_lists(pace_of(name).schedules([Request(4, 33, 150, 9.5, seed=2)])[0]) == alone
    others = [Request(row, 33, 150, seed=seed) for row in range(5, 8) for seed in (2, 3)]
    assert any(as_lists(s) != alone for s in pace.schedules(others))


@settings(max_examples=80)
@given(
    case=st.sampled_from(OWN),
    prompt=st.integers(1, 70),
    output=st.integers(1, 90),
    seed=st.integers(0, 99),
)
def test_tokens_are_conserved(case: tuple[str, str], prompt: int, output: int, seed: int) -> None:
    """Whatever the prompt's place in its last block, exactly the output is committed."""
    policy, name = case
    trace = shipped(name)

    schedule = pace_of(name).schedules([Request(seed, prompt, output, seed=seed)])[0]

    tokens = trace.manifest.block_tokens
    assert schedule.emitted_tokens.sum() == output
    assert (schedule.emitted_tokens >= 0).all()
    whole = prompt // tokens * tokens
    expected = {"d2f": 0, "block-entropy": prompt}.get(policy, whole)
    assert schedule.prefill_tokens == expected


@pytest.mark.parametrize("name", ["ref-gwd-w2-t0.6", "ref-single-block-m0.9", "ref-d2f"])
def test_prompts_of_every_length_modulo_the_block(name: str) -> None:
    """Block 0 has as many masks as the prompt leaves of it, in every remainder."""
    pace = pace_of(name)
    tokens = shipped(name).manifest.block_tokens
    requests = [Request(row, 2 * tokens + row, 40, seed=row) for row in range(tokens)]

    blocks = pace.replayed(requests)

    tables = blocks.record.tables()
    first = tables.first_local[:-1][tables.blocks["block"] == 0]
    masked = tables.local_steps["masked"][first]
    expected = [tokens] * tokens if name == "ref-d2f" else [tokens - row for row in range(tokens)]
    assert masked.tolist() == expected
    assert not blocks.masks[:, :2].any()


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_inner_blocks_are_distributed_as_in_the_trace(name: str) -> None:
    """Local steps, readiness at the first of them, forwards per block: thousands of blocks."""
    trace, found = captured_tables(shipped(name)), long_answers(name)
    source = source_of(name, shipped(name).manifest.policy)
    of, inner = source.role == 1, is_inner(found)
    assert inner.sum() > 3000

    for one, other in (
        (np.diff(trace.first_local)[of], np.diff(found.first_local)[inner]),
        (
            trace.local_steps["ready"][trace.first_local[:-1][of]],
            found.local_steps["ready"][found.first_local[:-1][inner]],
        ),
        (gaps(trace)[of], gaps(found)[inner]),
    ):
        assert ks_2samp(one, other).pvalue > 0.01
        error = one.std() / np.sqrt(len(one))
        assert other.mean() == pytest.approx(one.mean(), abs=max(2 * error, 1e-9))


@pytest.mark.parametrize("name", DEEP)
def test_long_answers_do_not_outrun_admission(name: str) -> None:
    """Short answers end before a deep window is in balance; one block a forward is its bound."""
    trace, found = captured_tables(shipped(name)), long_answers(name)
    of = source_of(name, shipped(name).manifest.policy).role == 1

    in_balance = gaps(found)[is_inner(found)].mean()

    assert in_balance >= 1.0 - 4 / 60
    assert in_balance > gaps(trace)[of].mean()
    assert in_balance < 1.5


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_answers_as_long_as_the_trace_s_cost_what_they_did(name: str) -> None:
    """Tokens per forward within 8 %: drawn answers run to their limit and have no end token."""
    pace = pace_of(name)
    source = pace.source
    rows = np.arange(2 * source.n_requests) % source.n_requests
    requests = [
        Request(index, int(source.prompt_tokens[row]), max(1, int(source.output_tokens[row])))
        for index, row in enumerate(rows)
    ]

    tables = pace.replayed(requests).record.tables()

    decodes = (tables.steps["kind"] != 0).sum()
    found = tables.steps["committed_tokens"].sum() / decodes
    assert found == pytest.approx(pace.mean_tokens, rel=0.08)
    assert pace.replay == "resampled"
    assert pace.relative_error == pace.sampling_error > 0


def test_the_sampling_error_is_the_bootstrap_s() -> None:
    """Requests drawn with replacement spread tokens per forward as told, to a tenth."""
    pace = pace_of("ref-gwd-w2-t0.6")
    requests = shipped("ref-gwd-w2-t0.6").requests.to_pandas()
    tokens = requests["output_tokens"].to_numpy()
    forwards = (requests["denoise_forwards"] + requests["store_forwards"]).to_numpy()
    rows = np.random.default_rng(0).integers(len(tokens), size=(4000, len(tokens)))

    drawn = tokens[rows].sum(axis=1) / forwards[rows].sum(axis=1)

    spread = 1.645 * drawn.std() / drawn.mean()
    assert pace.sampling_error == pytest.approx(spread, rel=0.1)


def test_a_long_answer_is_made_of_many() -> None:
    """Whole runs of neighbouring inner blocks, each of another request drawn from all of them."""
    pace = pace_of("ref-gwd-w2-t0.6")
    source = pace.source
    owner = np.repeat(np.arange(source.n_requests), source.blocks_of_request)

    recorded = pace.replayed([Request(0, 64, 4000, seed=3)]).requests.recorded[0]

    assert source.role[recorded[0]] == 0
    assert set(source.role[recorded[1:]]) == {1}
    runs = np.flatnonzero(np.diff(recorded) != 1)
    assert len(set(owner[recorded[runs]])) > 40
    # A run ends where the inner blocks of its request do.
    inner = np.flatnonzero(source.role == 1)
    ends = {int(inner[owner[inner] == row].max()) for row in set(owner[inner])}
    assert set(recorded[runs[1:]].tolist()) <= ends
