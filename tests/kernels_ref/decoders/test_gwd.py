"""Gated wavefront decoding, against Algorithm 1 without a cache and against its limits."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoding.asking import live_blocks
from kernels_ref.decoding.query import Model
from kernels_ref.decoding.sequence import Sequence
from tests.kernels_ref.decoders.drawn import THRESHOLDS, requests, settings_of
from tests.kernels_ref.decoders.hashed import HashedModel
from tests.kernels_ref.decoders.models import (
    LAYERS,
    Request,
    decoded,
    random_model,
    requests_of,
    windows,
)
from tests.kernels_ref.decoders.naive_decoders import Gate, Run, gwd, predict_of, start


def check(model: Model, request: Request, gate: Gate, **also: Any) -> Run:
    """Both decoders do the same."""
    block = model.facts.block_tokens
    case = {
        "window": gate.window,
        "theta_spawn": gate.theta,
        "tau_mask": gate.tau_mask,
        "tau_edit": gate.tau_edit,
        "post_edit_steps": gate.post_edit_steps,
        "forced": "every" if gate.force_all else "leftmost",
        "post_edit_counts": "own" if gate.count_own else "leftmost",
        **also,
    }
    (sequence,) = decoded(model, "gwd", case, [request], block).sequences
    run = gwd(start(model, request, block), predict_of(model, block), gate)
    assert sequence.tokens.tolist() == run.tokens
    assert windows(sequence) == run.windows
    assert sum(forward.edited for forward in sequence.record.forwards) == run.edits
    return run


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("theta", [0.1, 0.6])
def test_it_decodes_as_without_a_cache(layers: str, window: int, theta: float) -> None:
    """A transformer written afresh, run on everything in every forward, gives the same."""
    gate = Gate(window, theta, tau_mask=0.35, tau_edit=0.2, post_edit_steps=3)
    model = random_model(layers)
    runs = [check(model, request, gate) for request in requests_of([(13, 24)], seed=2)]
    assert max(right - left for run in runs for left, right in run.windows) == window


@settings(max_examples=90)
@given(
    batch=requests(most=1),
    seed=st.integers(0, 2**31),
    gate=st.builds(
        Gate,
        st.integers(1, 4),
        THRESHOLDS,
        tau_mask=THRESHOLDS,
        tau_edit=THRESHOLDS,
        post_edit_steps=st.integers(1, 4),
        force_all=st.booleans(),
        count_own=st.booleans(),
    ),
    full_window=st.booleans(),
)
def test_it_decodes_as_without_a_cache_at_any_setting(
    batch: list[Request], seed: int, gate: Gate, *, full_window: bool
) -> None:
    """Also where probabilities and readiness lie exactly on their thresholds."""
    check(HashedModel(seed), batch[0], gate, full_window=full_window)


@settings(max_examples=25)
@given(batch=requests(), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_a_window_of_one_is_joint_threshold(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """W=1 is serial decoding: the same tokens, updates and forwards, however batched."""
    model = HashedModel(seed)
    case |= {"window": 1, "batching": "packed"}
    joint = {key: case[key] for key in ("tau_mask", "tau_edit", "post_edit_steps")}
    serial = decoded(model, "joint-threshold", joint, batch, 4)
    packed = decoded(model, "gwd", case, batch, 4)
    assert packed.forwards == serial.forwards
    for one, other in zip(packed.sequences, serial.sequences, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.record.blocks == other.record.blocks
        assert windows(one) == windows(other)


@settings(max_examples=25)
@given(batch=requests(most=1), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_an_open_gate_admits_a_block_a_forward(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """With theta 0 the window grows by one per forward until it is full or the sequence ends."""
    case |= {"theta_spawn": 0.0, "batching": "packed"}
    (sequence,) = decoded(HashedModel(seed), "gwd", case, batch, 4).sequences
    seen = windows(sequence)
    assert seen[0] == (0, 1)
    for (_, right), (left, after) in itertools.pairwise(seen):
        assert after == min(right + 1, left + case["window"], sequence.n_blocks)


@settings(max_examples=25)
@given(batch=requests(most=1), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_a_shut_gate_admits_only_when_all_masks_are_ready(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """With theta 1 the last step of the frontier before an admission had all its masks ready.

    And as soon as it has, the next block is admitted if the window has room.
    """
    case |= {"theta_spawn": 1.0, "batching": "packed"}
    (sequence,) = decoded(HashedModel(seed), "gwd", case, batch, 4).sequences
    record = sequence.record
    for frontier, after in itertools.pairwise(record.blocks):
        step = after.admitted - 1 - frontier.admitted
        assert frontier.ready[step] == frontier.masked[step]
    for number, row in enumerate(record.blocks):
        for step, (masked, ready) in enumerate(zip(row.masked, row.ready, strict=True)):
            forward = row.admitted + step + 1
            if masked == ready and forward < len(record.forwards):
                now = record.forwards[forward]
                full = now.window_right - now.window_left == case["window"]
                assert now.window_right > number + 1 or full or number + 1 == sequence.n_blocks


@settings(max_examples=25)
@given(batch=requests(most=1), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_a_batch_of_one_does_not_tell_how_it_is_batched(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """Synchronous and packed are the same where there is nobody to wait for."""
    packed, synchronous = (
        decoded(HashedModel(seed), "gwd", case | {"batching": batching}, batch, 4)
        for batching in ("packed", "synchronous")
    )
    assert packed.outcomes == synchronous.outcomes
    assert packed.forwards == synchronous.forwards


@settings(max_examples=25)
@given(batch=requests(), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_serial_rows_that_wait_for_each_other_take_as_long_as_each_blocks_slowest(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """With W=1 waiting changes no token, so the forwards follow from those of the packed rows.

    Synchronous: over the blocks, the sum of the most forwards that any row spends there; packed:
    the most that any row spends in all, which is never more.
    """
    model = HashedModel(seed)
    packed, synchronous = (
        decoded(model, "gwd", case | {"batching": batching, "window": 1}, batch, 4)
        for batching in ("packed", "synchronous")
    )
    spent = [[len(b.masked) for b in s.record.blocks] for s in packed.sequences]
    most = max(map(len, spent))
    slowest = [max(row[block] for row in spent if block < len(row)) for block in range(most)]
    assert [s.tokens.tolist() for s in synchronous.sequences] == [
        s.tokens.tolist() for s in packed.sequences
    ]
    assert synchronous.forwards.decode == sum(slowest)
    assert packed.forwards.decode == max(map(sum, spent)) <= sum(slowest)


@settings(max_examples=25)
@given(batch=requests(), seed=st.integers(0, 2**31), case=settings_of("gwd"))
def test_synchronous_rows_share_one_window(
    batch: list[Request], seed: int, case: dict[str, Any]
) -> None:
    """In every forward the rows that are left have one window, cut at each row's last block."""
    run = decoded(HashedModel(seed), "gwd", case | {"batching": "synchronous"}, batch, 4)
    for number in range(run.forwards.decode):
        left = [(s.n_blocks, windows(s)[number]) for s in run.sequences if len(windows(s)) > number]
        right = max(window[1] for _, window in left)
        assert len({window[0] for _, window in left}) == 1
        assert all(window[1] == min(right, blocks) for blocks, window in left)
        assert len(left) == run.forwards.rows[number]


def test_a_block_is_finished_when_it_last_became_so() -> None:
    """Forwards in which a finished block only waits for the one before it do not move that.

    An edit re-opens it, and then it is finished anew.
    """
    case = {"window": 3, "theta_spawn": 0.0, "tau_mask": 0.55, "tau_edit": 0.25}
    waiting = reopened = 0
    for seed in range(30):
        batch = requests_of([(4, 16)], seed=seed, vocab=14)
        (sequence,) = decoded(HashedModel(seed), "gwd", case, batch, 4).sequences
        for block in sequence.record.blocks:
            if block.retired < 0:
                continue
            changed = [m > 0 or e > 0 for m, e in zip(block.masked, block.edited, strict=True)]
            settled = max(step + 1 for step, change in enumerate(changed) if change)
            assert block.finished == block.admitted + settled
            waiting += block.finished < block.retired
            reopened += (False, True) in itertools.pairwise(changed)
    assert waiting > 3
    assert reopened > 3


@pytest.mark.parametrize("layers", LAYERS)
def test_no_place_sees_what_is_right_of_its_block(layers: str) -> None:
    """Equation 5: other tokens in later blocks of the window leave every logit as it was.

    With experts, to within rounding: who else visits one decides how its product is summed.
    """
    model = random_model(layers)
    (request,) = requests_of([(11, 29)])
    sequence = Sequence(
        request.prompt, facts=model.facts, block_tokens=8, output_tokens=request.output_tokens
    )
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, model.facts.vocab, (2, 24))
    tokens[1, :16] = tokens[0, :16]
    query = live_blocks(sequence, 0, 3, padded_blocks=4)
    said = []
    for row in tokens:
        cache = model.new_cache(1, 64)
        for values in (*cache.kv.keys, *cache.kv.values):
            values[:, :8] = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None, None]
        (one,) = model.forward([dataclasses.replace(query, tokens=row)], cache)
        assert one is not None
        said.append(one.logits)
    bound = 0.0 if layers == "dense" else 1e-12
    apart = (said[0] - said[1])[:, 1:].abs()
    assert apart[:16].max() <= bound
    assert apart[16:].min(dim=1).values.max() > 0.01
