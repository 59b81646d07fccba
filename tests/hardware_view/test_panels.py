"""What the panels of the hardware figure hold, against numbers worked out by hand."""

import dataclasses
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hwprofiles import HardwareProfile
from simulator.hardware_view import hardware_panels
from simulator.hardware_view.measured import NO_POINTS, MeasuredPoints, read_points
from simulator.hardware_view.panel import Panel, Series
from simulator.hardware_view.shapes import middle, of_shape, typical, within
from simulator.library import HARDWARE
from tests.hardware_view.small_machine import machine, machine_with_points


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> HardwareProfile:
    """The machine without points."""
    profile: HardwareProfile = HARDWARE.get(str(machine(tmp_path_factory.mktemp("machine"))))
    return profile


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> MeasuredPoints:
    """Points off the curves of the machine by up to a tenth."""
    path = machine_with_points(tmp_path_factory.mktemp("points"))
    return read_points(path.with_suffix(".parquet"))


def titled(panels: list[Panel], title: str) -> Panel:
    """The panel whose title begins with *title*."""
    (found,) = (panel for panel in panels if panel.title.startswith(title))
    return found


def labelled(panel: Panel, label: str) -> Series:
    """The series of *panel* with this label."""
    (found,) = (each for each in panel.series if each.label == label)
    return found


def test_dense_products_lie_under_their_roofline(small: HardwareProfile) -> None:
    """256 x 256, one row: 131072 flop on 66048 numbers of 4 bytes, 100 us and 65536 x 0.5 ns."""
    panel = titled(hardware_panels(small, NO_POINTS), "Dense products, fp32")
    curve = labelled(panel, "256 x 256")
    assert curve.x[0] == pytest.approx(131072 / (4 * 66048))
    assert curve.y[0] == pytest.approx(131072 / (1e-4 + 65536 * 5e-10))
    assert curve.x[-1] == pytest.approx(64 * 131072 / (4 * (65536 + 64 * 512)))
    assert curve.y[-1] == pytest.approx(64 * 131072 / (1e-4 + 65536 * 8e-9))
    assert [each.label for each in panel.series] == [
        "256 x 256",
        "1024 x 1024",
        "4096 x 4096",
        "LM head 4096 x 4096",
    ]
    (roof,) = panel.limits
    # 10 GB/s times 4 FLOP a byte is 40 GFLOP/s.
    assert roof.words == "most measured"
    assert roof.x[1] == pytest.approx(4.0)
    assert roof.y == pytest.approx([1e10 * roof.x[0], 4e10, 4e10])
    assert roof.rates == [(1e10, "B/s"), (4e10, "FLOP/s")]


def test_bands_are_as_wide_as_the_error(small: HardwareProfile) -> None:
    """Predicted 10 % too high or too low: 1/1.1 to 1/0.9 of a time, 0.9 to 1.1 of a rate."""
    panels = hardware_panels(small, NO_POINTS)
    rate = titled(panels, "Dense products").series[0]
    time = titled(panels, "Attention over a prefix").series[0]
    streams, by_row = titled(panels, "Elementwise").series
    assert np.divide(rate.low, rate.y) == pytest.approx(0.9)
    assert np.divide(rate.high, rate.y) == pytest.approx(1.1)
    assert np.divide(time.low, time.y) == pytest.approx(1 / 1.1)
    assert np.divide(time.high, time.y) == pytest.approx(1 / 0.9)
    assert np.divide(streams.high, streams.y) == pytest.approx(1.1)
    assert np.divide(by_row.high, by_row.y) == pytest.approx(1.2)


def test_an_error_above_one_leaves_a_finite_band(small: HardwareProfile) -> None:
    """A curve that is off by more than itself still has a band with two ends."""
    poor = dataclasses.replace(small.kernels.elementwise.residual, p90=3.0)
    stream = dataclasses.replace(small.kernels.elementwise, residual=poor)
    changed = dataclasses.replace(
        small, kernels=dataclasses.replace(small.kernels, elementwise=stream)
    )
    curve = titled(hardware_panels(changed, NO_POINTS), "Elementwise").series[0]
    assert np.isfinite(curve.high).all()
    assert min(curve.low) > 0


def test_weights_are_read_by_one_row(small: HardwareProfile) -> None:
    """A square of side n at m = 1: 4 n^2 bytes in 100 us and n^2 x 0.5 ns, from n = 256."""
    panel = titled(hardware_panels(small, NO_POINTS), "Reading weights")
    (curve,) = panel.series
    assert curve.label == "fp32, m = 1"
    assert curve.x[0] == pytest.approx(4 * 256**2)
    assert curve.x[-1] == pytest.approx(4 * 4096**2)
    sizes = np.array(curve.x)
    assert curve.y == pytest.approx(sizes / (1e-4 + sizes / 4 * 5e-10))
    assert panel.limits[0].y == [1e10, 1e10]


def test_attention_over_a_prefix_by_hand(small: HardwareProfile, points: MeasuredPoints) -> None:
    """2 sequences, 8 heads on 2 of 64, one query on 17 keys in fp32.

    Keys and values: 2 x 2 x 2 x 64 x 17 numbers; queries and outputs: 2 x 2 x 8 x 64; 4 bytes
    each at 8 GB/s. 4 rows x 2 KV heads x 2 sequences meet 17 keys: 272 x 256 flop at 50 GFLOP/s.
    """
    panel = titled(hardware_panels(small, points), "Attention over a prefix, fp32")
    assert panel.note == "2 sequences, 8 query heads on 2 KV heads of 64"
    counts = ["1 query", *(f"{count} queries" for count in (16, 32, 64, 128, 256))]
    assert [each.label for each in panel.series] == counts
    curve = panel.series[0]
    moved = 4 * (2 * 2 * 2 * 64 * 17 + 2 * 2 * 8 * 64)
    assert curve.x[0] == 17
    assert curve.y[0] == pytest.approx(1e-4 + moved / 8e9 + 272 * 256 / 5e10)
    # 2 sequences x 2 (keys, values) x 2 heads x 64 x 4 bytes a key, at 10 GB/s.
    (limit,) = panel.limits
    assert np.divide(limit.y, limit.x) == pytest.approx(2048 / 1e10)
    assert not any(each.is_extrapolated for each in panel.series)


def test_causal_attention_counts_half_the_pairs(small: HardwareProfile) -> None:
    """16 queries among themselves: 136 pairs, 4 flop for each of 32 heads of 64."""
    (curve,) = titled(hardware_panels(small, NO_POINTS), "Attention of whole prompts").series
    prefill = small.kernels.attention_prefill["fp32"]
    seconds = prefill.time(
        [16], [16], query_heads=32, kv_heads=8, head_dim=64, kv_element_bytes=4.0
    ).seconds
    assert curve.x[0] == 16
    assert curve.y[0] == pytest.approx(136 * 4 * 32 * 64 / float(seconds))


def test_elementwise_kernels_by_hand(small: HardwareProfile) -> None:
    """64 bytes in 2 us and 8 ns; a row of 8192 adds 4.096 us."""
    panel = titled(hardware_panels(small, NO_POINTS), "Elementwise")
    streams, by_row = panel.series
    assert streams.y[0] == pytest.approx(64 / (2e-6 + 64 / 8e9))
    assert by_row.label == "rows of 8192 B"
    assert by_row.x[0] == 8192
    assert by_row.y[0] == pytest.approx(8192 / (2e-6 + 4.096e-6 + 8192 / 8e9))


def test_points_are_on_the_axes_of_their_curve(
    small: HardwareProfile, points: MeasuredPoints
) -> None:
    """Every point lies within a tenth of its curve, at the sizes that were measured."""
    for panel in hardware_panels(small, points):
        for each in panel.series:
            assert each.marks.x, (panel.title, each.label)
            if panel.title.startswith("Reading weights"):
                continue
            order = np.argsort(each.x)
            at = np.log(np.array(each.x)[order]), np.log(np.array(each.y)[order])
            predicted = np.exp(np.interp(np.log(each.marks.x), *at))
            # Where a curve bends, 121 points of it are off by a few percent between them.
            assert np.abs(np.log(np.divide(each.marks.y, predicted))).max() < 0.14


def test_held_out_points_are_those_of_the_fits(points: MeasuredPoints) -> None:
    """A point is held out when a checksum of its sizes says so: one in ten."""
    rows = points.rows("gemm", "fp32")
    expected = [
        zlib.crc32(f"{m} {n} {k}".encode()) % 10 == 0
        for m, n, k in zip(rows["m"], rows["n"], rows["k"], strict=True)
    ]
    assert rows["held_out"].tolist() == expected
    assert 0 < sum(expected) < len(expected) / 4


def test_a_machine_without_experts_or_neighbours(small: HardwareProfile) -> None:
    """Kernels that a profile does not have get no panel."""
    kernels = [panel.kernel for panel in hardware_panels(small, NO_POINTS)]
    assert kernels == ["gemm", "gemm", "attention_extend", "attention_prefill", "elementwise"]


def test_a_shipped_profile_has_every_panel() -> None:
    """Experts start at 8 tokens x 8 experts; beyond 128 rows per KV head curves are dotted."""
    panels = hardware_panels(HARDWARE.get("h200-sxm"), NO_POINTS)
    assert len(panels) == 8
    experts = labelled(titled(panels, "Grouped experts"), "bf16 8 of 256, 2048 x 512")
    # One token reaches 8 experts: launch and 8 x (84.4 ns, and 3 x 2048 x 512 weights or rows).
    weights, rows = 8 * 3 * 2048 * 512 * 2 / 4.5021e12, 8 * 2048 * 2 / 6.4497e11
    compute = 2 * 3 * 2048 * 512 * (8 + 8 * 32.371) / 7.681e14
    roof = (weights**2.0014 + compute**2.0014) ** (1 / 2.0014)
    assert experts.y[0] == pytest.approx(2.2154e-5 + 8 * 8.4415e-8 + rows + roof)
    attention = titled(panels, "Attention over a prefix")
    dotted = {each.label for each in attention.series if each.is_extrapolated}
    # 4 query heads share a KV head.
    assert dotted == {"64 queries", "128 queries", "256 queries"}
    ranks = titled(panels, "All-reduce")
    assert [each.label for each in ranks.series] == ["2 GPUs", "4 GPUs", "8 GPUs"]
    assert [ranks.series[0].x[0], ranks.series[0].y[0]] == pytest.approx([256.0, 2.6189e-6])
    for panel in panels:
        for each in panel.series:
            assert np.isfinite([*each.x, *each.y, *each.low, *each.high]).all()


def stored(folder: Path, rows: list[dict[str, Any]]) -> MeasuredPoints:
    """*rows* written to a file and read back."""
    path = folder / "points.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return read_points(path)


def test_of_several_backends_the_fastest_counts(tmp_path: Path) -> None:
    """Masked queries over a prefix and rows without a time are left out."""
    one = {
        "kernel": "attention_extend",
        "precision": "bf16",
        "operation": "whole",
        "status": "measured",
        "sequences": 1,
        "query_tokens": 16,
        "kv_tokens": 1040,
        "query_heads": 8,
        "kv_heads": 2,
        "head_dim": 64,
    }
    points = stored(
        tmp_path,
        [
            one | {"backend": "slow", "seconds": 3e-3},
            one | {"backend": "fast", "seconds": 1e-3},
            one | {"backend": "masked", "operation": "causal", "seconds": 5e-4},
            one | {"backend": "absent", "status": "skipped", "seconds": None},
        ],
    )
    assert points.rows("attention_extend", "bf16")["seconds"].tolist() == [1e-3]
    assert points.rows("attention_extend", "fp32").empty
    assert points.rows("gemm").empty


def test_a_table_by_message_has_seen_every_point(tmp_path: Path) -> None:
    """No point of an all-reduce is held out of its table, whatever its sizes."""
    one = {"kernel": "all_reduce", "precision": "bf16", "ranks": 2}
    rows = [one | {"message_bytes": 256.0 * i, "seconds": 1e-5} for i in range(1, 60)]
    assert not stored(tmp_path, rows).rows("all_reduce")["held_out"].any()


def test_curves_follow_the_experts_that_were_reached(tmp_path: Path) -> None:
    """Points at the same few experts are left to the JSON: curves are drawn for the most."""
    h200: HardwareProfile = HARDWARE.get("h200-sxm")
    one = {
        "kernel": "moe",
        "precision": "bf16",
        "hidden": 2048,
        "expert_ffn": 512,
        "top_k": 8,
        "experts": 256,
    }
    reached = {1: 8, 8: 60, 64: 220}
    wide = [one | {"tokens": t, "active_experts": a, "seconds": 1e-4} for t, a in reached.items()]
    narrow = [row | {"active_experts": 8} for row in wide[1:]]
    panels = hardware_panels(h200, stored(tmp_path, wide + narrow))
    curve = labelled(titled(panels, "Grouped experts"), "bf16 8 of 256, 2048 x 512")
    shape = {"hidden": 2048, "expert_ffn": 512, "top_k": 8, "experts": 256}
    at_end = h200.kernels.moe["bf16"].time(64, 220, **shape).seconds
    assert sorted(curve.marks.x) == [1, 8, 64]
    assert [curve.x[-1], curve.y[-1]] == pytest.approx([64.0, float(at_end)])


def test_typical_shapes() -> None:
    """Shapes with half as many points as the most, small to large, ends first."""
    often = [(n, 10) for n in (10, 20, 30, 40, 50) for _ in range(4)]
    rows = pd.DataFrame([*often, (5, 1), (60, 10), (60, 10)], columns=["n", "k"])
    assert typical(rows, ("n", "k"), 2) == [(10, 10), (60, 10)]
    assert typical(rows, ("n", "k"), 99) == [(n, 10) for n in (10, 20, 30, 40, 50, 60)]
    assert middle(rows, ("n", "k")) == (40, 10)
    assert len(of_shape(rows, ("n", "k"), (60, 10))) == 2
    assert [within(value, (2.0, 4.0)) for value in (1.0, 3.0, 9.0)] == [2.0, 3.0, 4.0]
