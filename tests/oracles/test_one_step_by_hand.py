"""One decode step of tiny models, calculated by hand: flop, bytes, link bytes and seconds."""

from pathlib import Path

import pytest

from simulator.engine import simulate
from tests.oracles.handmade import DENSE, EXPERTS, decode_step, handmade, totals

# Three rows of one query each; the prompt's 9 tokens are cached, so each query meets 10 keys.
# A row is 8 numbers wide, 16 bytes; there are 4 query heads and 2 KV heads of 4.

# GEMMs of the dense layer, as m x n x k: flop 2mnk; bytes 2nk of weights, 2m(n + k) of rows.
QKV_FLOP, QKV_BYTES = 2 * 3 * 32 * 8, 2 * 32 * 8 + 2 * 3 * (32 + 8)
O_FLOP, O_BYTES = 2 * 3 * 8 * 16, 2 * 8 * 16 + 2 * 3 * (8 + 16)
GATE_UP_FLOP, GATE_UP_BYTES = 2 * 3 * 24 * 8, 2 * 24 * 8 + 2 * 3 * (24 + 8)
DOWN_FLOP, DOWN_BYTES = 2 * 3 * 8 * 12, 2 * 8 * 12 + 2 * 3 * (8 + 12)
HEAD_FLOP, HEAD_BYTES = 2 * 3 * 32 * 8, 2 * 32 * 8 + 2 * 3 * (32 + 8)
# Two products per query head and key; K and V of 2 heads read, queries and outputs of 4.
ATTENTION_FLOP = 3 * 4 * 4 * 4 * 10
ATTENTION_BYTES = 3 * 10 * 2 * 2 * 4 * 2 + 3 * 2 * 4 * 4 * 2
# 3 tokens, 2 heads of 4 keys and 4 values: read in bf16, stored in bf16.
STORED_BYTES = 3 * 2 * (4 + 4) * (2 + 2)
# Norm: two reads, two writes. Rotary: 4 + 2 heads read and written. SwiGLU: 12 twice in, once out.
NORM_BYTES = 3 * 4 * 16
ROTARY_BYTES = 3 * 2 * (4 + 2) * 4 * 2
SWIGLU_BYTES = 3 * 3 * 12 * 2
# Embedding and final norm read and write a row; soft-max reads bf16, writes and reads float32.
ROW_BYTES = 3 * 2 * 16
CONFIDENCE_BYTES = 3 * 32 * (2 + 4 + 4)

# What a block of threads moves for its one row: norm 5, final norm 3 times the row's 16 bytes.
NORM_S = 5e-6 + 5 * 16 / 1e9 + NORM_BYTES / 8e9
FINAL_NORM_S = 5e-6 + 3 * 16 / 1e9 + ROW_BYTES / 8e9
ROTARY_S = 5e-6 + ROTARY_BYTES / 3 / 1e9 + ROTARY_BYTES / 8e9
EMBEDDING_S = 5e-6 + ROW_BYTES / 8e9
CONFIDENCE_S = 5e-6 + CONFIDENCE_BYTES / 8e9
ATTENTION_S = 3e-6 + ATTENTION_BYTES / 4e9 + ATTENTION_FLOP / 4e12
HEAD_S = 2e-6 + HEAD_BYTES / 2e9 + HEAD_FLOP / 2e12
ENDS_S = EMBEDDING_S + FINAL_NORM_S + HEAD_S + CONFIDENCE_S
ENDS_BYTES = 2 * ROW_BYTES + HEAD_BYTES + CONFIDENCE_BYTES


def test_a_dense_step(tmp_path: Path) -> None:
    """Two dense layers: every product, read and write of the step, counted on paper."""
    deployment = handmade(tmp_path, DENSE)
    flop, moved, link = totals(decode_step(deployment, 3))

    gemm_flop = QKV_FLOP + O_FLOP + GATE_UP_FLOP + DOWN_FLOP
    gemm_bytes = QKV_BYTES + O_BYTES + GATE_UP_BYTES + DOWN_BYTES
    assert (gemm_flop, gemm_bytes) == (4032, 752 + 400 + 576 + 312)
    assert flop == pytest.approx(2 * (4032 + 1920) + 1536, rel=1e-9)
    elementwise = 2 * NORM_BYTES + ROTARY_BYTES + SWIGLU_BYTES
    assert (elementwise, ATTENTION_BYTES) == (2 * 192 + 288 + 216, 1152)
    assert STORED_BYTES == 192
    assert moved == pytest.approx(2 * (2040 + 1152 + 192 + 888) + 2 * 96 + 752 + 960, rel=1e-9)
    assert link == 0

    gemms_s = 4 * 1e-6 + gemm_bytes / 1e9 + gemm_flop / 1e12
    swiglu_s = 5e-6 + 3 * 12 * 2 / 1e9 + SWIGLU_BYTES / 8e9
    layer_s = gemms_s + ATTENTION_S + 2 * NORM_S + ROTARY_S + swiglu_s
    (step,) = [s for s in simulate(deployment).records.steps if not s.prefill]
    assert step.seconds == pytest.approx(2 * layer_s + ENDS_S, rel=1e-9)


def test_an_experts_step(tmp_path: Path) -> None:
    """A layer of 4 experts, 2 per token, and a shared one: 3.5 are hit by 3 tokens on average."""
    deployment = handmade(tmp_path, EXPERTS)
    flop, moved, link = totals(decode_step(deployment, 3))

    router_flop, router_bytes = 2 * 3 * 4 * 8, 2 * 4 * 8 + 2 * 3 * (4 + 8)
    # Each of 4 experts is missed by a token with chance 1/2, so by all three with 1/8.
    hit = 4 * (1 - (1 / 2) ** 3)
    expert_flop = 2 * (3 * 2) * (3 * 8 * 6)
    # The weights that are hit. Each of the 6 visits reads a row, writes gate and up, reads them,
    # writes and reads their product and writes a row that is read again; 3 sums are written.
    expert_weights = hit * 3 * 8 * 6 * 2
    expert_bytes = expert_weights + 6 * 2 * (8 + 12 + 12 + 6 + 6 + 8 + 8) + 3 * 2 * 8
    up_flop, up_bytes = 2 * 3 * 12 * 8, 2 * 12 * 8 + 2 * 3 * (12 + 8)
    down_flop, down_bytes = 2 * 3 * 8 * 6, 2 * 8 * 6 + 2 * 3 * (8 + 6)
    swiglu = 3 * 3 * 6 * 2
    gemm_flop = QKV_FLOP + O_FLOP + router_flop + up_flop + down_flop
    gemm_bytes = QKV_BYTES + O_BYTES + router_bytes + up_bytes + down_bytes
    assert hit == 3.5
    assert flop == pytest.approx(gemm_flop + expert_flop + ATTENTION_FLOP + HEAD_FLOP, rel=1e-9)
    elementwise = 2 * NORM_BYTES + ROTARY_BYTES + swiglu
    expected_bytes = gemm_bytes + expert_bytes + ATTENTION_BYTES + STORED_BYTES + elementwise
    expected_bytes += ENDS_BYTES
    assert moved == pytest.approx(expected_bytes, rel=1e-9)
    assert link == 0

    gemms_s = 5 * 1e-6 + gemm_bytes / 1e9 + gemm_flop / 1e12
    # Every hit expert costs 0.1 us more; the rows of the visits pass once at their own bandwidth.
    experts_s = 4e-6 + 3.5 * 1e-7 + 6 * 16 / 1e8 + expert_weights / 5e9 + expert_flop / 5e12
    swiglu_s = 5e-6 + 3 * 6 * 2 / 1e9 + swiglu / 8e9
    layer_s = gemms_s + experts_s + ATTENTION_S + 2 * NORM_S + ROTARY_S + swiglu_s
    (step,) = [s for s in simulate(deployment).records.steps if not s.prefill]
    assert step.seconds == pytest.approx(layer_s + ENDS_S, rel=1e-9)


def test_a_dense_step_on_two_gpus(tmp_path: Path) -> None:
    """Tensor parallelism halves heads, widths and vocabulary, and adds two all-reduces a layer."""
    deployment = handmade(tmp_path, DENSE, parallel={"tp": 2})
    flop, moved, link = totals(decode_step(deployment, 3))

    # Per GPU: 2 query heads and 1 KV head, half of the feed-forward width, half of the head.
    shapes = [(16, 8), (8, 8), (12, 8), (8, 6)]
    gemm_flop = sum(2 * 3 * n * k for n, k in shapes)
    gemm_bytes = sum(2 * n * k + 2 * 3 * (n + k) for n, k in shapes)
    attention_flop = ATTENTION_FLOP / 2
    attention_bytes = ATTENTION_BYTES / 2
    head_flop, head_bytes = 2 * 3 * 16 * 8, 2 * 16 * 8 + 2 * 3 * (16 + 8)
    assert flop == pytest.approx(2 * (gemm_flop + attention_flop) + head_flop, rel=1e-9)
    elementwise = 2 * NORM_BYTES + ROTARY_BYTES / 2 + SWIGLU_BYTES / 2
    ends_bytes = 2 * ROW_BYTES + head_bytes + CONFIDENCE_BYTES
    layer_bytes = gemm_bytes + attention_bytes + STORED_BYTES / 2 + elementwise
    assert moved == pytest.approx(2 * layer_bytes + ends_bytes, rel=1e-9)
    # Of every all-reduced message of 3 rows of 16 bytes a GPU sends 2 (2 - 1) / 2 = once its
    # size; a gather of 3 x 32 logits of 2 bytes sends half of its own size.
    assert link == pytest.approx(2 * 2 * 48 + 96, rel=1e-9)

    gemms_s = 4 * 1e-6 + gemm_bytes / 1e9 + gemm_flop / 1e12
    attention_s = 3e-6 + attention_bytes / 4e9 + attention_flop / 4e12
    rotary_s = 5e-6 + ROTARY_BYTES / 6 / 1e9 + ROTARY_BYTES / 2 / 8e9
    swiglu_s = 5e-6 + 3 * 6 * 2 / 1e9 + SWIGLU_BYTES / 2 / 8e9
    layer_s = gemms_s + attention_s + 2 * NORM_S + rotary_s + swiglu_s + 2 * 48e-9
    head_s = 2e-6 + head_bytes / 2e9 + head_flop / 2e12 + 96e-9
    ends_s = EMBEDDING_S + FINAL_NORM_S + head_s + CONFIDENCE_S
    (step,) = [s for s in simulate(deployment).records.steps if not s.prefill]
    assert step.seconds == pytest.approx(2 * layer_s + ends_s, rel=1e-9)


def test_the_prefill_of_a_dense_model(tmp_path: Path) -> None:
    """27 prompt tokens in one forward; only last rows reach the LM head, attention is causal."""
    deployment = handmade(tmp_path, DENSE)
    (prefill,) = [s for s in simulate(deployment).records.steps if s.prefill]

    m = 27
    shapes = [(32, 8), (8, 16), (24, 8), (8, 12)]
    gemms_s = sum(
        1e-6 + (2 * n * k + 2 * m * (n + k)) / 1e9 + 2 * m * n * k / 1e12 for n, k in shapes
    )
    # 9 queries of 2 heads share a KV head: 18 rows, each sees its own key and those before; the
    # kernel walks rows one by one and drops half a key from row to row.
    pairs = 3 * 2 * (18 * 9 - 0.5 * 18 * 17 / 2)
    attention_bytes = 3 * 9 * 2 * 2 * 4 * 2 + m * 2 * 4 * 4 * 2
    alone = 18 * 9
    assert pairs > alone
    attention_s = 3e-6 + attention_bytes / 4e9 + 4 * 4 * pairs / 4e12
    norm_s = 5e-6 + 5 * 16 / 1e9 + m * 4 * 16 / 8e9
    rotary_s = 5e-6 + 96 / 1e9 + m * 96 / 8e9
    swiglu_s = 5e-6 + 72 / 1e9 + m * 72 / 8e9
    ends_s = 5e-6 + m * 32 / 8e9 + 5e-6 + 48 / 1e9 + m * 32 / 8e9 + HEAD_S + CONFIDENCE_S
    layer_s = gemms_s + attention_s + 2 * norm_s + rotary_s + swiglu_s
    assert prefill.seconds == pytest.approx(2 * layer_s + ends_s, rel=1e-9)
