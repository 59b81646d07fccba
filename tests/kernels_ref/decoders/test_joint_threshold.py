"""Masks to tokens and tokens to tokens in one block, against a decoder without a cache."""

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoding.query import Model
from tests.kernels_ref.decoders.drawn import THRESHOLDS, requests
from tests.kernels_ref.decoders.hashed import HashedModel
from tests.kernels_ref.decoders.models import (
    LAYERS,
    Request,
    decoded,
    random_model,
    requests_of,
    windows,
)
from tests.kernels_ref.decoders.naive_decoders import Run, joint_threshold, predict_of, start


def check(
    model: Model, request: Request, tau_mask: float, tau_edit: float, post_edit_steps: int
) -> Run:
    """Both decoders do the same."""
    block = model.facts.block_tokens
    case = {"tau_mask": tau_mask, "tau_edit": tau_edit, "post_edit_steps": post_edit_steps}
    (sequence,) = decoded(model, "joint-threshold", case, [request], block).sequences
    run = start(model, request, block)
    joint_threshold(
        run,
        predict_of(model, block),
        tau_mask=tau_mask,
        tau_edit=tau_edit,
        post_edit_steps=post_edit_steps,
    )
    assert sequence.tokens.tolist() == run.tokens
    assert windows(sequence) == run.windows
    assert sum(forward.edited for forward in sequence.record.forwards) == run.edits
    return run


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    ("tau_mask", "tau_edit", "post_edit_steps"), [(0.6, 0.3, 16), (0.4, 0.0, 2)]
)
def test_it_decodes_as_without_a_cache(
    layers: str, tau_mask: float, tau_edit: float, post_edit_steps: int
) -> None:
    """A transformer written afresh, run on everything in every forward, gives the same."""
    runs = [
        check(random_model(layers), request, tau_mask, tau_edit, post_edit_steps)
        for request in requests_of([(3, 14), (13, 12)], seed=2)
    ]
    assert sum(run.edits for run in runs) > 5


@settings(max_examples=70)
@given(
    batch=requests(most=1),
    seed=st.integers(0, 2**31),
    tau_mask=THRESHOLDS,
    tau_edit=THRESHOLDS,
    post_edit_steps=st.integers(1, 6),
)
def test_it_decodes_as_without_a_cache_at_any_setting(
    batch: list[Request], seed: int, tau_mask: float, tau_edit: float, post_edit_steps: int
) -> None:
    """Also where probabilities lie exactly on a threshold: those are not above it."""
    check(HashedModel(seed), batch[0], tau_mask, tau_edit, post_edit_steps)
