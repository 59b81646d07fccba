"""The KV that later tokens see is the KV of the finished sequence, whatever decoded it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoders import policy_names
from kernels_ref.decoding.query import Model, Query
from tests.kernels_ref.decoders.drawn import requests, settings_of
from tests.kernels_ref.decoders.hashed import HashedModel
from tests.kernels_ref.decoders.models import (
    LAYERS,
    Decoded,
    Request,
    decoded,
    encoded,
    kv_of,
    random_model,
    requests_of,
)

STORES_ALL = ("single-block", "joint-threshold", "gwd")
"""Policies that have stored a block when they retire it, the last one too, if not fused."""
LENGTHS = [(3, 30), (8, 17), (13, 27)]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "single-block": [{"tau_mask": 0.6}, {"tau_mask": 0.6, "store": "fused"}],
    "joint-threshold": [
        {"tau_mask": 0.6, "tau_edit": 0.3},
        {"tau_mask": 0.4, "tau_edit": 0.0, "post_edit_steps": 1},
    ],
    "gwd": [
        {"tau_mask": 0.4, "tau_edit": 0.2, "window": 3, "theta_spawn": 0.2},
        {"tau_mask": 0.5, "tau_edit": 0.0, "post_edit_counts": "own", "post_edit_steps": 2},
        {"tau_mask": 0.5, "tau_edit": 0.3, "window": 3, "batching": "synchronous"},
    ],
    "block-entropy": [{"steps": 3, "entropy_bound": 1.0}],
    "block-buffer": [{"buffer": 3}, {"tau_mask": 0.5, "tau_edit": 0.2, "post_edit_steps": 2}],
}
"""For every policy; its defaults are taken where it is not named."""
CASES = [
    (layers, name, case)
    for name in policy_names("blocks")
    for number, case in enumerate(SETTINGS.get(name, [{}]))
    for layers in (LAYERS if number == 0 else ["dense"])
]


def stored_end(run: Decoded, row: int, name: str, case: Mapping[str, Any]) -> int:
    """Place before which a row's KV is final: what a forward saw as prefix, or all that retired."""
    sequence = run.sequences[row]
    seen = max(forward.prefix_tokens for forward in sequence.record.forwards)
    if name not in STORES_ALL or case.get("store") == "fused":
        return seen
    return sequence.start(sum(block.retired >= 0 for block in sequence.record.blocks))


def differences(
    model: Model, name: str, case: Mapping[str, Any], batch: list[Request]
) -> list[float]:
    """How far each stored number is from re-encoding the finished sequences."""
    run = decoded(model, name, case, batch, model.facts.block_tokens)
    found: list[float] = []
    for row, sequence in enumerate(run.sequences):
        if end := stored_end(run, row, name, case):
            kv, again = run.model.kv(row, end), encoded(model, name, sequence, end)
            found += np.where(kv == again, 0.0, np.abs(kv - again)).flatten().tolist()
    return found


@pytest.mark.parametrize(("layers", "name", "case"), CASES)
def test_stored_kv_is_that_of_the_finished_sequence(
    layers: str, name: str, case: dict[str, Any]
) -> None:
    """Later blocks see what re-encoding all final tokens gives, up to rounding of doubles."""
    found = differences(random_model(layers), name, case, requests_of(LENGTHS))
    assert len(found) > 24 * 64
    assert max(found) < 1e-12


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=15)
@given(data=st.data(), batch=requests(), seed=st.integers(0, 2**31))
def test_stored_kv_is_exact_where_nothing_rounds(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """With keys that are hashes of all they follow from, no bit differs, at any setting."""
    found = differences(HashedModel(seed), name, data.draw(settings_of(name)), batch)
    assert not any(found)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("single-block", {"tau_mask": 0.6}),
        ("joint-threshold", {"tau_mask": 0.4, "tau_edit": 0.0, "post_edit_steps": 2}),
        ("gwd", {"tau_mask": 0.4, "tau_edit": 0.3, "window": 1}),
        ("gwd", {"tau_mask": 0.4, "tau_edit": 0.3, "window": 2, "theta_spawn": 1.0}),
    ],
)
def test_stored_kv_is_bit_identical_to_the_same_shape_of_forward(
    name: str, case: dict[str, Any]
) -> None:
    """FlowBlock 4.1: re-encoding a final block behind its prefix gives the very same bits.

    The dummies of a full window are part of the shape.
    """
    model, (request,) = random_model(), requests_of([(13, 40)])
    run = decoded(model, name, case, [request])
    (sequence,) = run.sequences
    cache = model.new_cache(1, len(sequence.tokens))
    for block in range(-1, sequence.n_blocks):
        left, right = (0, 8) if block < 0 else (sequence.start(block), sequence.start(block + 1))
        slots = 8 * (case.get("window", 1) if block >= 0 else 1)
        horizon = np.full(right - left, right)
        model.forward([Query("store", left, sequence.tokens[left:right], horizon, slots)], cache)
    end = stored_end(run, 0, name, case)
    assert end > 24
    assert np.array_equal(run.model.kv(0, end), kv_of(cache, 0, end))
