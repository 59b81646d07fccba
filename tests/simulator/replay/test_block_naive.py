"""Replay against a machine that has one request, one block and one number at a time.

Wavefronts, buffers and self-correction in single blocks.

Traces are random: windows, gates and thresholds, several live blocks, edits that re-open blocks,
answers that end anywhere or never.
"""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.replay.block_record import BlockTables
from simulator.replay.block_summary import ReplayedBlocks, replay_blocks
from tests.simulator.replay.naive_blocks import Text
from tests.simulator.replay.random_blocks import (
    BUDGETS,
    Captured,
    buffer_parameters,
    buffers,
    naive_again,
    serial,
    wave_parameters,
    waves,
)
from tests.simulator.replay.shipped_blocks import captured_tables, check_same
from traces.block_tables import KINDS, LOCAL_LISTS


def plain(tables: BlockTables) -> dict[str, Any]:
    """Tables as lists of rows."""
    names = sorted(tables.steps)
    steps = list(zip(*(tables.steps[name].tolist() for name in names), strict=True))
    life = ("request", "block", "admitted", "finished", "retired")
    blocks = list(zip(*(tables.blocks[name].tolist() for name in life), strict=True))
    local = list(zip(*(tables.local_steps[name].tolist() for name in LOCAL_LISTS), strict=True))
    return {
        "first": tables.first_step.tolist(),
        "steps": steps,
        "blocks": blocks,
        "first_local": tables.first_local.tolist(),
        "local": local,
    }


def naive_plain(texts: list[Text]) -> dict[str, Any]:
    """The same of the naive machine."""
    names = sorted(texts[0].forwards[0])
    forwards = [forward for text in texts for forward in text.forwards]
    coded = [forward | {"kind": KINDS.index(forward["kind"])} for forward in forwards]
    blocks = [
        (text.number, number, block)
        for text in texts
        for number, block in enumerate(text.blocks)
        if block.admitted >= 0
    ]
    first, first_local = [0], [0]
    for text in texts:
        first.append(first[-1] + text.count)
    for _, _, block in blocks:
        first_local.append(first_local[-1] + len(block.updates))
    return {
        "first": first,
        "steps": [tuple(forward[name] for name in names) for forward in coded],
        "blocks": [(n, k, b.admitted, b.finished, b.retired) for n, k, b in blocks],
        "first_local": first_local,
        "local": [tuple(update) for _, _, block in blocks for update in block.updates],
    }


def asked_of(parameters: Any) -> dict[str, Any]:
    """A policy's parameters as settings of a replay."""
    without = {"policy", "trace", "tokens_per_forward", "block"}
    return {name: value for name, value in vars(parameters).items() if name not in without}


def check_captured(captured: Captured) -> None:
    """A replay without changes is the random decoder's own record, drawn nowhere."""
    found = replay_blocks(captured.trace, {})
    assert (found.replay, found.drawn_share) == ("exact", 0.0)
    check_same(found.tables, captured_tables(captured.trace))
    assert plain(found.tables) == naive_plain(captured.texts)
    assert found.batch_forwards == captured.trace.manifest.counts.batch_forwards


def check_changed(captured: Captured, parameters: Any, batch: int) -> ReplayedBlocks:
    """The replay under other parameters does as the naive machine does."""
    settings = asked_of(parameters) | {"batch": batch}
    found = replay_blocks(captured.trace, settings)
    exact = found.replay == "exact"
    expected = naive_again(captured, parameters, batch=batch, exact=exact)
    assert plain(found.tables) == naive_plain(expected)
    return found


@settings(max_examples=50)
@given(captured=waves())
def test_a_captured_wavefront_is_repeated(captured: Captured) -> None:
    """Whatever the random decoder did."""
    check_captured(captured)


@settings(max_examples=50)
@given(captured=buffers())
def test_a_captured_buffer_is_repeated(captured: Captured) -> None:
    """Whatever the random decoder did."""
    check_captured(captured)


@settings(max_examples=100)
@given(captured=waves(), data=st.data())
def test_a_wavefront_under_any_other_parameters(captured: Captured, data: st.DataObject) -> None:
    """Window, gate, batching and batch of the replay are any others."""
    drawn = data.draw(wave_parameters(captured.parameters.block), label="replayed")
    batch = data.draw(st.integers(1, 3), label="rows")
    check_changed(captured, replace(captured.parameters, **drawn), batch)


@settings(max_examples=100)
@given(captured=buffers(), data=st.data())
def test_a_buffer_under_any_other_parameters(captured: Captured, data: st.DataObject) -> None:
    """Slots, thresholds, the budget of edits and who is forced are any others."""
    drawn = data.draw(buffer_parameters(captured.parameters.block), label="replayed")
    check_changed(captured, replace(captured.parameters, **drawn), 1)


@settings(max_examples=50)
@given(captured=serial(), data=st.data())
def test_self_correction_under_any_budget(captured: Captured, data: st.DataObject) -> None:
    """As captured, and where another budget freezes blocks earlier or later."""
    check_captured(captured)

    steps = data.draw(BUDGETS, label="replayed")
    check_changed(captured, replace(captured.parameters, post_edit_steps=steps), 1)
