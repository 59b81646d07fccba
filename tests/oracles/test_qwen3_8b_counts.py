"""Flop, bytes and cache of Qwen3-8B against arithmetic on its published shape."""

import math

import pytest

from tests.oracles.handmade import decode_step, totals
from tests.strategies import deployed, document

LAYERS, HIDDEN, FFN, VOCAB = 36, 4096, 12288, 151936
QUERY_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
# q and o, k and v, then gate, up and down.
LAYER_WEIGHTS = HIDDEN * HEAD_DIM * (2 * QUERY_HEADS + 2 * KV_HEADS) + 3 * HIDDEN * FFN
BODY_WEIGHTS = LAYERS * LAYER_WEIGHTS
HEAD_WEIGHTS = HIDDEN * VOCAB
# Keys and values in bf16.
CACHE_BYTES_PER_TOKEN = LAYERS * 2 * KV_HEADS * HEAD_DIM * 2


def test_a_step_does_two_flop_per_active_weight_and_four_per_head_and_key() -> None:
    """One AR token: 2 x active parameters, and 4 x heads x head size x keys x layers."""
    deployment = deployed(document("ar", concurrency=1, prompt_tokens=1000, output_tokens=2))
    flop, _, _ = totals(decode_step(deployment, 1))

    keys = 1000 + 1
    attention = 4 * QUERY_HEADS * HEAD_DIM * keys * LAYERS
    active = BODY_WEIGHTS + HEAD_WEIGHTS
    assert active == pytest.approx(7.568e9, rel=1e-3)
    assert flop == pytest.approx(2 * active + attention, rel=1e-9)


def test_weights_are_read_once_whatever_the_batch() -> None:
    """64 rows move the same weights as one row: all that grows is in proportion to the rows."""
    deployment = deployed(document("ar", concurrency=64, prompt_tokens=1000, output_tokens=2))
    _, one, _ = totals(decode_step(deployment, 1))
    _, many, _ = totals(decode_step(deployment, 64))

    per_row = (many - one) / 63
    assert one - per_row == pytest.approx(2 * (BODY_WEIGHTS + HEAD_WEIGHTS), rel=1e-9)
    # A row's cache, and activations that are small beside it.
    assert per_row > 1001 * CACHE_BYTES_PER_TOKEN
    assert per_row < 1001 * CACHE_BYTES_PER_TOKEN * 1.15


def test_the_largest_batch_is_what_memory_leaves() -> None:
    """At 9216 tokens an H200 holds between 64 and 127 sequences, as many as the bytes say."""
    scenario = document("ar", concurrency=1, prompt_tokens=1024, output_tokens=8192)
    deployment = deployed(scenario, hardware="h200-sxm")

    usable = 0.9 * 141e9
    weights = 2 * (BODY_WEIGHTS + 2 * HEAD_WEIGHTS)
    # The largest prefill keeps four rows of the hidden size and two of the feed-forward width.
    activations = 16384 * 2 * (4 * HIDDEN + 2 * FFN)
    # A sequence has its cache and one row of logits, in bf16 and float32.
    sequence = 9216 * CACHE_BYTES_PER_TOKEN + VOCAB * (2 + 4)
    largest = math.floor((usable - weights - activations) / sequence)
    assert 64 <= largest <= 127
    assert deployment.largest_batch(9216) == largest


@pytest.mark.parametrize(("tensor_parallel", "share"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_cache_and_weights_are_split_over_gpus(tensor_parallel: int, share: int) -> None:
    """With 8 KV heads, 8 GPUs hold an eighth of weights and cache each."""
    scenario = document("ar", prompt_tokens=1000, output_tokens=24)
    deployment = deployed(scenario, parallel={"tp": tensor_parallel})

    cache = 1024 * CACHE_BYTES_PER_TOKEN / share
    assert deployment.sequence_bytes(1024) == pytest.approx(cache, rel=1e-12)
    weights = 2 * (BODY_WEIGHTS + 2 * HEAD_WEIGHTS) / share
    assert deployment.memory(1).weight_bytes == pytest.approx(weights, rel=1e-12)


def test_cache_is_granted_in_whole_pages() -> None:
    """A sequence one token beyond a page of 256 takes the next page whole."""
    deployment = deployed(document("ar"), engine="nano-vllm")

    assert deployment.engine.kv_page_tokens == 256
    assert deployment.sequence_bytes(256) == 256 * CACHE_BYTES_PER_TOKEN
    assert deployment.sequence_bytes(257) == 512 * CACHE_BYTES_PER_TOKEN
