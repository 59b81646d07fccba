"""Statistics of block traces: by hand on a tiny trace, and against plain loops."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.tiny_trace import put, table_of
from traces.block_trace import read_block_trace
from traces.statistics import (
    by_local_step,
    local_steps,
    summary,
    tokens_per_batch_forward,
)
from traces.verdicts import share, standard_error


def test_a_trace_by_hand(tmp_path: Path) -> None:
    """Every statistic of the tiny trace is what one counts in its tables."""
    found = summary(read_block_trace(put(tmp_path / "tiny")))
    assert found["tokens_per_forward_by_definition"] == pytest.approx(
        {
            "decode": 18 / 14,
            "denoise": 18 / 10,
            "all": 18 / 16,
            # Batch 0: 10 tokens, 6 forwards of the slower row and a prefill, 2 rows.
            "dinfer": (10 / 7 / 2 + 8 / 5 / 1) / 2,
        }
    )
    assert found["tokens_per_forward"] == pytest.approx(18 / 14)
    assert (found["requests"], found["output_tokens"]) == (3, 18)
    assert (found["forwards"], found["batch_forwards"]) == (16, 13)
    assert found["forwards_per_block"]["mean"] == pytest.approx(10 / 6)
    assert found["forwards_per_block"]["blocks"] == {"1": 3, "2": 2, "3": 1}
    # The edited block has no masks in its second and third local step.
    steps = found["local_steps"]
    assert (steps["step"], steps["blocks"]) == ([0, 1], [6, 2])
    assert steps["readiness"] == pytest.approx([(2 / 3 + 0 + 0 + 1 + 1 + 1) / 6, 1.0])
    assert steps["revealed"] == pytest.approx([16 / 6, 4 / 2])
    assert found["edits_per_request"] == pytest.approx(1 / 3)
    # Two blocks are live in the fused store alone, of 14 forwards that are no prefill.
    assert found["blocks_live"] == pytest.approx(15 / 14)
    assert found["overlap"] == pytest.approx(1 / 14)
    assert found["padded_share"] == pytest.approx(8 / 68)
    assert (found["accuracy"], found["valid"]) == (0.5, 1.0)
    assert found["accuracy_standard_error"] == pytest.approx(math.sqrt(0.25 / 2))


def test_nothing_to_take_a_mean_of() -> None:
    """No checked request has no accuracy, and no error of it."""
    nobody = np.zeros(0, dtype=np.bool_)
    assert share(nobody) is None
    assert standard_error(nobody) is None


def test_the_standard_error_is_that_of_a_binomial_share() -> None:
    """3 of 4 correct: sqrt(0.75 * 0.25 / 4); of a share of 1 it is 0."""
    assert standard_error(np.array([True, True, True, False])) == pytest.approx(0.2165063509)
    assert standard_error(np.array([True, True])) == 0.0


rows_of_batches = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 1), st.integers(1, 9)),
    min_size=1,
    max_size=12,
)


@given(rows_of_batches)
def test_tokens_per_batch_forward_is_a_loop_over_batches(
    rows: list[tuple[int, int, int, int]],
) -> None:
    """Batches may have any numbers, any rows, and rows in any order."""
    ratios = []
    for name in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == name]
        forwards = max(row[3] for row in mine) + max(row[2] for row in mine)
        ratios.append(sum(row[1] for row in mine) / forwards / len(mine))
    found = tokens_per_batch_forward(*np.array(rows).T)
    assert found == pytest.approx(sum(ratios) / len(ratios))


masks = st.integers(0, 4).flatmap(
    lambda masked: st.tuples(st.just(masked), st.integers(0, masked), st.integers(0, masked))
)


@given(st.lists(st.lists(masks, max_size=5), min_size=1, max_size=6))
def test_curves_by_local_step_are_a_loop_over_blocks(
    blocks: list[list[tuple[int, int, int]]],
) -> None:
    """Blocks of any length, re-opened ones too; steps that no block is masked in are left out."""
    rows = [
        {"request": 0, "block": number, "admitted": 0, "finished": -1, "retired": -1}
        | {"masked": [m for m, _, _ in block], "ready": [ready for _, ready, _ in block]}
        | {"revealed": [revealed for *_, revealed in block]}
        | {name: [0] * len(block) for name in ("edited", "agreeing")}
        for number, block in enumerate(blocks)
    ]
    found = by_local_step(table_of("blocks", rows))
    for step in range(5):
        there = [block[step] for block in blocks if len(block) > step and block[step][0] > 0]
        assert (step in found["step"]) == bool(there)
        if there:
            at = found["step"].index(step)
            assert found["blocks"][at] == len(there)
            readiness = sum(ready / masked for masked, ready, _ in there) / len(there)
            assert found["readiness"][at] == pytest.approx(readiness)
            assert found["revealed"][at] == pytest.approx(sum(r for *_, r in there) / len(there))


def test_local_steps_count_within_each_list() -> None:
    """Lists of 2, 0 and 3 entries."""
    assert local_steps(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
