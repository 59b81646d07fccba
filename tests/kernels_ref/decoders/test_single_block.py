"""One block at a time by a confidence threshold, against a decoder without a cache."""

from typing import Literal

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
from tests.kernels_ref.decoders.naive_decoders import predict_of, single_block, start

Store = Literal["separate", "fused"]


def check(model: Model, request: Request, tau_mask: float, store: Store) -> None:
    """Both decoders do the same."""
    block = model.facts.block_tokens
    case = {"tau_mask": tau_mask, "store": store}
    (sequence,) = decoded(model, "single-block", case, [request], block).sequences
    run = start(model, request, block)
    single_block(run, predict_of(model, block), tau_mask=tau_mask, fused=store == "fused")
    assert sequence.tokens.tolist() == run.tokens
    assert windows(sequence) == run.windows


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("store", ["separate", "fused"])
@pytest.mark.parametrize("tau_mask", [0.3, 1.0])
def test_it_decodes_as_without_a_cache(layers: str, store: Store, tau_mask: float) -> None:
    """A transformer written afresh, run on everything in every forward, gives the same."""
    for request in requests_of([(3, 14), (13, 12)], seed=2):
        check(random_model(layers), request, tau_mask, store)


@settings(max_examples=50)
@given(
    batch=requests(most=1),
    seed=st.integers(0, 2**31),
    tau_mask=THRESHOLDS,
    store=st.sampled_from(["separate", "fused"]),
)
def test_it_decodes_as_without_a_cache_at_any_threshold(
    batch: list[Request], seed: int, tau_mask: float, store: Store
) -> None:
    """Also where probabilities lie exactly on the threshold: those are revealed."""
    check(HashedModel(seed), batch[0], tau_mask, store)


@settings(max_examples=20)
@given(batch=requests(most=1), seed=st.integers(0, 2**31), tau_mask=THRESHOLDS)
def test_a_fused_store_saves_one_forward_a_block(
    batch: list[Request], seed: int, tau_mask: float
) -> None:
    """The tokens are the same; every retired block's bubble is gone."""
    separate, fused = (
        decoded(
            HashedModel(seed), "single-block", {"tau_mask": tau_mask, "store": store}, batch, 4
        ).sequences[0]
        for store in ("separate", "fused")
    )
    retired = sum(block.retired >= 0 for block in separate.record.blocks)
    assert fused.tokens.tolist() == separate.tokens.tolist()
    assert len(separate.record.forwards) - len(fused.record.forwards) == retired


@settings(max_examples=20)
@given(batch=requests(), seed=st.integers(0, 2**31), tau_mask=st.sampled_from([0.3, 0.6, 0.8]))
def test_a_buffer_of_one_is_single_block_with_a_bubble(
    batch: list[Request], seed: int, tau_mask: float
) -> None:
    """Multi-block diffusion, N_buf = 1: a block is stored by the forward after its last one.

    The thresholds lie between probabilities, since one rule is from them on and the other above.
    """
    model = HashedModel(seed)
    single = decoded(model, "single-block", {"tau_mask": tau_mask}, batch, 4)
    buffer = decoded(model, "block-buffer", {"tau_mask": tau_mask, "buffer": 1}, batch, 4)
    assert buffer.outcomes == single.outcomes
    assert buffer.forwards == single.forwards
