"""Each form against a value worked out by hand from round parameters."""

import math
from typing import Any

import numpy as np
import pytest

from hwprofiles import Residual, Source
from hwprofiles.curves import (
    AllReduceCurve,
    AttentionCurve,
    GemmCurve,
    GroupedMoeCurve,
    StreamingCurve,
)
from hwprofiles.curves.all_reduce import MessageTable
from hwprofiles.curves.smooth import p_norm

ABOUT: dict[str, Any] = {
    "residual": Residual(median=0.0, p90=0.0, points=0),
    "domain": {},
    "source": Source(kind="datasheet", text="round numbers"),
}


def attention_curve(**changes: object) -> AttentionCurve:
    """10 multiprocessors, tiles of 8 rows in steps of 4, 1 us launch, 1 MB/us, 1 Mflop/us."""
    fields: dict[str, Any] = {
        "form": "attention",
        "causal": False,
        "tile_rows": 8,
        "row_granule": 4,
        "multiprocessors": 10,
        "key_splits": 10,
        "launch_s": 1e-6,
        "split_s": 0.0,
        "split_kv_tokens": 100.0,
        "wave_s": 2e-6,
        "wave_power": 1.0,
        "memory_bytes_per_s": 1e12,
        "flop_per_s": 1e12,
        "roof_power": 1.0,
        **ABOUT,
    }
    return AttentionCurve(**(fields | changes))


def test_p_norm_of_three_and_four_is_five() -> None:
    """Power 2 is Pythagoras; power 1 is the sum; nothing and nothing make nothing."""
    three, four = np.asarray(3.0), np.asarray(4.0)
    assert p_norm(three, four, power=2.0) == pytest.approx(5.0)
    assert p_norm(three, four, power=1.0) == pytest.approx(7.0)
    assert p_norm(np.asarray(0.0), np.asarray(0.0), power=3.0) == 0.0


def test_gemm_by_hand() -> None:
    """Two rows, n 3, k 5: (2*15 + 4*2*8) bytes is 94 us at 1 byte/us, 60 flop is 60 us."""
    curve = GemmCurve(
        form="gemm",
        launch_s=10e-6,
        launch_per_k_s=1e-6,
        launch_k_limit=4.0,
        launch_power=1.0,
        roof_power=2.0,
        memory_bytes_per_s=1e6,
        flop_per_s=1e6,
        weight_element_bytes=2.0,
        activation_element_bytes=4.0,
        **ABOUT,
    )
    time = curve.time(2, 3, 5)
    assert float(time.launch_s) == pytest.approx(14e-6)
    assert float(time.memory_s) == pytest.approx(94e-6)
    assert float(time.compute_s) == pytest.approx(60e-6)
    assert float(time.seconds) == pytest.approx(14e-6 + math.hypot(94e-6, 60e-6))


def test_attention_of_single_queries_by_hand() -> None:
    """Three sequences of 100 keys, 4 query heads on 2 KV heads of 10 numbers, fp8 cache.

    Memory: 2*2*10*1*300 of cache and 2*4*10*2*3 of queries and outputs are 12,480 bytes.
    Arithmetic: 2 rows are padded to 4; 4*10 flop * 4 rows * 300 keys * 2 heads are 96,000.
    6 units fit on 10 multiprocessors at once.
    """
    time = attention_curve().time(
        [1, 1, 1], [100, 100, 100], query_heads=4, kv_heads=2, head_dim=10, kv_element_bytes=1.0
    )
    assert float(time.memory_s) == pytest.approx(12_480e-12)
    assert float(time.compute_s) == pytest.approx(96_000e-12)
    assert float(time.launch_s) == pytest.approx(1e-6)
    assert float(time.seconds) == pytest.approx(1e-6 + 108_480e-12)


def test_attention_in_several_waves_by_hand() -> None:
    """13 queries on 1 KV head are 13 rows, 2 tiles; 12 such sequences are 24 units, 3 waves."""
    time = attention_curve().time(
        [13] * 12, [13] * 12, query_heads=1, kv_heads=1, head_dim=10, kv_element_bytes=1.0
    )
    assert float(time.launch_s) == pytest.approx(1e-6 + 2 * 2e-6)


def test_causal_attention_by_hand() -> None:
    """12 queries after 20 keys fill 2 tiles, so 4 granules of 4 that see 32, 28, 24 and 20 keys."""
    time = attention_curve(causal=True).time(
        [12], [32], query_heads=1, kv_heads=1, head_dim=10, kv_element_bytes=1.0
    )
    assert float(time.compute_s) == pytest.approx(4 * 10 * 4 * (32 + 28 + 24 + 20) * 1e-12)


def test_one_unit_that_cannot_be_split_uses_one_multiprocessor() -> None:
    """The 4 rows of one unit over 100 keys at a tenth of the GPU's rate take ten times as long."""
    shape: dict[str, Any] = {
        "query_heads": 1,
        "kv_heads": 1,
        "head_dim": 10,
        "kv_element_bytes": 1.0,
    }
    split = attention_curve().time([1], [100], **shape)
    whole = attention_curve(key_splits=1).time([1], [100], **shape)
    assert float(whole.compute_s) == pytest.approx(10 * float(split.compute_s))


def test_splitting_along_the_keys_by_hand() -> None:
    """A sequence as long as split_kv_tokens pays 1 - 1/e of split_s."""
    shape: dict[str, Any] = {
        "query_heads": 1,
        "kv_heads": 1,
        "head_dim": 10,
        "kv_element_bytes": 1.0,
    }
    time = attention_curve(split_s=5e-6).time([1, 1], [100, 3], **shape)
    assert float(time.launch_s) == pytest.approx(1e-6 + 5e-6 * (1 - 1 / math.e))


def test_moe_by_hand() -> None:
    """10 tokens to 2 of 4 experts, 3 used, of 5 by 7: 105 elements each.

    Weights 3*105 = 315 us; rows 10*2*5*2 = 200 bytes, 100 us; arithmetic 2*105*(20 + 3*2) =
    5,460 flop, 546 us.
    """
    curve = GroupedMoeCurve(
        form="grouped-moe",
        launch_s=20e-6,
        expert_s=2e-6,
        row_bytes_per_s=2e6,
        memory_bytes_per_s=1e6,
        flop_per_s=1e7,
        padding_rows=2.0,
        roof_power=2.0,
        weight_element_bytes=1.0,
        **ABOUT,
    )
    time = curve.time(10, 3, hidden=5, expert_ffn=7, top_k=2, experts=4)
    assert float(time.launch_s) == pytest.approx(26e-6)
    assert float(time.memory_s) == pytest.approx(415e-6)
    assert float(time.compute_s) == pytest.approx(546e-6)
    assert float(time.seconds) == pytest.approx(126e-6 + math.hypot(315e-6, 546e-6))


def test_no_more_experts_are_active_than_there_are() -> None:
    """Asking for 9 active experts of 4 is asking for 4."""
    curve = GroupedMoeCurve(
        form="grouped-moe",
        launch_s=20e-6,
        expert_s=2e-6,
        row_bytes_per_s=2e6,
        memory_bytes_per_s=1e6,
        flop_per_s=1e7,
        padding_rows=2.0,
        roof_power=2.0,
        weight_element_bytes=1.0,
        **ABOUT,
    )
    shape: dict[str, Any] = {"hidden": 5, "expert_ffn": 7, "top_k": 2, "experts": 4}
    assert float(curve.time(10, 9, **shape).seconds) == float(curve.time(10, 4, **shape).seconds)


def test_streaming_by_hand() -> None:
    """3 MB at 1 MB/us after 2 us; rows of 6 kB at 2 GB/s each take 3 us more."""
    curve = StreamingCurve(
        form="streaming",
        launch_s=2e-6,
        memory_bytes_per_s=1e12,
        row_bytes_per_s=2e9,
        row_residual=ABOUT["residual"],
        **ABOUT,
    )
    assert float(curve.time(3e6).seconds) == pytest.approx(5e-6)
    assert float(curve.time(3e6, 6e3).seconds) == pytest.approx(8e-6)


def test_all_reduce_by_hand() -> None:
    """Between rows a power law, flat below the first, the last slope beyond the last."""
    table = MessageTable(message_bytes=[100.0, 400.0, 500.0], seconds=[1e-6, 4e-6, 6e-6])
    curve = AllReduceCurve(form="all-reduce", by_ranks={2: table}, residual_by_ranks={}, **ABOUT)
    seconds = curve.time([10, 100, 200, 400, 700], 2).seconds
    assert seconds.tolist() == pytest.approx([1e-6, 1e-6, 2e-6, 4e-6, 10e-6])


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        ([1.0, 2.0], [1.0]),
        ([1.0], [1.0]),
        ([2.0, 1.0], [1.0, 2.0]),
        ([1.0, 2.0], [2.0, 1.0]),
    ],
    ids=["lengths differ", "one row", "sizes fall", "times fall"],
)
def test_a_table_that_cannot_be_interpolated_is_refused(
    sizes: list[float], times: list[float]
) -> None:
    """The rule broken is said."""
    with pytest.raises(ValueError, match=r"at least two|rises from row to row|never goes down"):
        MessageTable(message_bytes=sizes, seconds=times)
