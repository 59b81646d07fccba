"""Exact replay: a trace of blocks under its own policy and parameters is what was captured."""

import functools

import numpy as np
import pytest

from simulator.replay.block_summary import ReplayedBlocks, replay_blocks
from tests.simulator.replay.shipped_blocks import (
    NAMES,
    POLICIES,
    captured_tables,
    check_same,
    shipped,
)
from traces.columns import entries, numbers
from traces.statistics import summary

SYNCHRONOUS = [name for name in NAMES if "synchronous" in name]
PACKED = [name for name in NAMES if name not in SYNCHRONOUS]
BATCHES = (1, 2, 4, 8, 16, 32)
# Every trace in batches of one size, and the first trace of every policy in all of them.
IN_BATCHES = {(name, BATCHES[place % len(BATCHES)]) for place, name in enumerate(PACKED)}
IN_BATCHES |= {
    (name, batch)
    for name in {shipped(name).manifest.policy: name for name in reversed(PACKED)}.values()
    for batch in BATCHES
}


@functools.cache
def repeated(name: str) -> ReplayedBlocks:
    """The replay of a shipped trace without changes."""
    return replay_blocks(shipped(name), {})


def test_there_are_traces_of_every_policy() -> None:
    """Whatever is said below is said of all block policies."""
    assert {shipped(name).manifest.policy for name in NAMES} == set(POLICIES)


@pytest.mark.parametrize("name", NAMES)
def test_every_forward_and_every_block_is_the_captured_one(name: str) -> None:
    """All columns of steps and blocks, and all lists of local steps; nothing is drawn."""
    trace = shipped(name)

    found = repeated(name)

    assert (found.replay, found.drawn_share) == ("exact", 0.0)
    assert found.warnings == tuple(f"trace {name}: {said}" for said in trace.manifest.warnings)
    check_same(found.tables, captured_tables(trace))


@pytest.mark.parametrize("name", NAMES)
def test_totals_are_the_captured_ones(name: str) -> None:
    """Forwards of requests and batches, stores, tokens per forward, live blocks and accuracy."""
    trace = shipped(name)
    counts, expected = trace.manifest.counts, summary(trace)

    found = repeated(name).document()

    assert found["batch_forwards"] == counts.batch_forwards
    assert found["store_forwards"] == counts.store_forwards
    kept = ["requests", "output_tokens", "forwards", "tokens_per_forward", "accuracy", "valid"]
    kept += ["blocks_live"]
    assert {key: found[key] for key in kept} == pytest.approx(
        {key: expected[key] for key in kept}, rel=1e-12
    )
    assert found["local_steps"] == len(entries(trace.blocks, "masked"))


@pytest.mark.parametrize(("name", "batch"), sorted(IN_BATCHES))
def test_forwards_of_batches_follow_from_the_rows_of_packed_traces(name: str, batch: int) -> None:
    """A batch has a prefill if a row has one, and the forwards of its slowest row."""
    trace = shipped(name)
    decodes = numbers(trace.requests, "denoise_forwards") + numbers(
        trace.requests, "store_forwards"
    )
    prefills = numbers(trace.requests, "prefill_forwards")
    expected = sum(
        int(decodes[first : first + batch].max()) + int(prefills[first : first + batch].any())
        for first in range(0, len(decodes), batch)
    )

    found = replay_blocks(trace, {"batch": batch})

    assert (found.replay, found.batch_forwards) == ("exact", expected)
    assert found.forwards == decodes.sum() + prefills.sum()


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_rows_of_a_synchronous_batch_wait_for_one_another(name: str) -> None:
    """Each retires its blocks at the forwards at which the others do."""
    trace = shipped(name)
    tables = repeated(name).tables
    batch = numbers(trace.requests, "batch")[tables.blocks["request"]]
    key = batch * 1000 + tables.blocks["block"]
    gone = tables.blocks["retired"] >= 0

    together = set(zip(key[gone], tables.blocks["retired"][gone], strict=True))
    assert len(together) == len(np.unique(key[gone]))


def test_other_batches_of_a_synchronous_trace_are_counterfactual() -> None:
    """Who waits for whom changes with the batch, and with single rows nobody waits."""
    synchronous, packed = shipped("ref-gwd-synchronous-b32"), shipped("ref-gwd-w2-t0.6")

    found = replay_blocks(synchronous, {"batch": 1})

    assert found.replay == "counterfactual"
    assert set(found.accuracy.values()) == {None}
    real = replay_blocks(packed, {"batch": 1})
    assert found.tokens_per_forward == pytest.approx(real.tokens_per_forward, rel=0.01)
