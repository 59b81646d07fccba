"""Fits of made-up devices: what generated the points comes back, through noise and spikes."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hwprofiles import HardwareProfile, Residual, Source
from hwprofiles.curves import AttentionCurve, GemmCurve, GroupedMoeCurve, StreamingCurve
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.tables import check_rising
from hwprofiles.fitting import attention, gemm, moe, streaming
from hwprofiles.fitting.assemble import LEAST_POINTS, Measured, fit_profile
from hwprofiles.fitting.choice import best
from hwprofiles.fitting.device import Device
from hwprofiles.fitting.document import document
from hwprofiles.fitting.gemm_by_rows import fit_gemm_by_rows
from hwprofiles.fitting.points import (
    SIZES,
    MeasurementError,
    Points,
    fitted_rows,
    masked_over_whole,
    unseen,
)
from hwprofiles.fitting.scale import Scale
from hwprofiles.fitting.search import starts
from hwprofiles.quantities import FloatArray
from hwprofiles.rising import falls
from simulator.documents import DocumentError
from simulator.library import HARDWARE

NOISE = 0.03
SPIKES = 3
"""Points of every table that take thrice as long."""
ABOUT: dict[str, Any] = {
    "residual": Residual(median=0.0, p90=0.0, points=0),
    "domain": {},
    "source": Source(kind="datasheet", text="made up"),
}
# A device of 100 GB/s and 10 Tflop/s that launches in 5 us.
SCALE = Scale(memory_bytes_per_s=1e11, flop_per_s=1e13, launch_s=5e-6)
GEMM = GemmCurve(
    form="gemm",
    launch_s=6e-6,
    launch_per_k_s=1e-9,
    launch_k_limit=4096.0,
    launch_power=1.3,
    roof_power=3.0,
    memory_bytes_per_s=9e10,
    flop_per_s=8e12,
    weight_element_bytes=2.0,
    activation_element_bytes=2.0,
    **ABOUT,
)
BY_ROWS = GemmByRowsCurve(
    form="gemm-by-rows",
    launch_s=8e-6,
    rows=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0],
    # Flat, then a step of packing that no roofline has, then in proportion.
    weight_s=[2e-11, 2e-11, 2.2e-11, 7e-11, 7.1e-11, 7.5e-11, 8e-11, 1.6e-10, 3.2e-10],
    memory_bytes_per_s=1e11,
    flop_per_s=1e13,
    weight_element_bytes=2.0,
    **ABOUT,
)
EXTEND = AttentionCurve(
    form="attention",
    causal=False,
    tile_rows=128,
    row_granule=16,
    multiprocessors=8,
    key_splits=8,
    launch_s=1.2e-5,
    split_s=4e-6,
    split_kv_tokens=1500.0,
    wave_s=3e-6,
    wave_power=1.5,
    memory_bytes_per_s=8e10,
    flop_per_s=6e12,
    roof_power=2.0,
    **ABOUT,
)
PREFILL = replace(
    EXTEND, causal=True, row_granule=128, key_splits=1, split_s=0.0, split_kv_tokens=1.0
)
MOE = GroupedMoeCurve(
    form="grouped-moe",
    launch_s=5e-5,
    expert_s=4e-7,
    row_bytes_per_s=6e10,
    memory_bytes_per_s=8e10,
    flop_per_s=7e12,
    padding_rows=6.0,
    roof_power=2.0,
    weight_element_bytes=2.0,
    **ABOUT,
)
STREAM = StreamingCurve(
    form="streaming",
    launch_s=5e-6,
    memory_bytes_per_s=9.5e10,
    row_bytes_per_s=4e9,
    row_residual=ABOUT["residual"],
    **ABOUT,
)
LINEARS = ((1024, 1024), (4096, 1024), (1024, 4096), (2048, 2048), (6144, 2048))


def product(sizes: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Every combination of *sizes*."""
    return pd.DataFrame(list(itertools.product(*sizes.values())), columns=list(sizes)).astype(float)


def linears(rows: tuple[float, ...], shapes: tuple[tuple[int, int], ...] = LINEARS) -> pd.DataFrame:
    """Each number of rows through each matrix."""
    made = [(m, n, k) for n, k in shapes for m in rows]
    return pd.DataFrame(made, columns=["m", "n", "k"]).astype(float)


def extends() -> pd.DataFrame:
    """Queries over prefixes for two head shapes."""
    tokens: dict[str, tuple[float, ...]] = {
        "sequences": (1, 4, 16, 64),
        "query_tokens": (1, 4, 16, 33),
        "kv_tokens": (128, 1024, 4096, 16384),
    }
    return pd.concat(
        [
            product(tokens | {"query_heads": (q,), "kv_heads": (kv,), "head_dim": (d,)})
            for q, kv, d in ((16, 4, 64), (8, 8, 128))
        ],
        ignore_index=True,
    )


def prompts() -> pd.DataFrame:
    """Whole prompts of equal lengths."""
    tokens: dict[str, tuple[float, ...]] = {
        "sequences": (1, 2, 4, 8, 16),
        "query_tokens": (16, 64, 128, 200, 512, 1024, 2048, 4096),
        "query_heads": (16, 8),
    }
    made = product(tokens)
    return made.assign(kv_tokens=made["query_tokens"], kv_heads=4.0, head_dim=64.0)


def routed() -> pd.DataFrame:
    """Tokens over experts, from few to all of them."""
    tokens: dict[str, tuple[float, ...]] = {
        "tokens": (1, 4, 16, 64, 256, 1024, 4096),
        "active_experts": (4, 16, 64),
        "hidden": (1024, 2048),
        "expert_ffn": (512, 1024),
    }
    return product(tokens).assign(top_k=4.0, experts=64.0)


def streams() -> pd.DataFrame:
    """Bytes without rows of their own."""
    return pd.DataFrame({"bytes_moved": np.geomspace(64, 1e9, 80), "row_bytes": 0.0})


def row_kernels() -> pd.DataFrame:
    """Rows of several widths."""
    made = product({"rows": (1, 4, 16, 64, 256, 1024), "row_bytes": (2e3, 8e3, 3e4, 1e5)})
    return made.assign(bytes_moved=made["rows"] * made["row_bytes"])[["bytes_moved", "row_bytes"]]


def measured(sizes: pd.DataFrame, true_s: FloatArray, seed: int = 0) -> pd.DataFrame:
    """*sizes* with times that are 3 % off, and a few three times as long."""
    source = np.random.default_rng(seed)
    times = true_s * np.exp(source.normal(0.0, NOISE, len(true_s)))
    times[source.choice(len(true_s), SPIKES, replace=False)] *= 3.0
    return sizes.assign(seconds=times)


Predict = Callable[[Any, pd.DataFrame], FloatArray]
CASES: dict[str, tuple[str, Any, Callable[[], pd.DataFrame], Predict, Callable[[Points], Any]]] = {
    "gemm": (
        "gemm",
        GEMM,
        lambda: linears(tuple(float(2**i) for i in range(13))),
        gemm.predicted_s,
        lambda points: gemm.fit_gemm(
            points, weights="bf16", search=SCALE.gemm, source=ABOUT["source"]
        ),
    ),
    "gemm by rows": (
        "gemm",
        BY_ROWS,
        lambda: linears(tuple(BY_ROWS.rows)),
        gemm.predicted_s,
        lambda points: fit_gemm_by_rows(
            points, weights="bf16", launch=SCALE.launch, source=ABOUT["source"]
        ),
    ),
    "extend": (
        "attention_extend",
        EXTEND,
        extends,
        attention.predicted_s,
        lambda points: attention.fit_attention(
            replace(EXTEND, **starts(SCALE.extend)), points, search=SCALE.extend
        ),
    ),
    "prefill": (
        "attention_prefill",
        PREFILL,
        prompts,
        attention.predicted_s,
        lambda points: attention.fit_attention(
            replace(PREFILL, **starts(SCALE.prefill)), points, search=SCALE.prefill
        ),
    ),
    "experts": (
        "moe",
        MOE,
        routed,
        moe.predicted_s,
        lambda points: moe.fit_moe(
            points, weights="bf16", search=SCALE.moe, source=ABOUT["source"]
        ),
    ),
    "streams": (
        "elementwise",
        STREAM,
        streams,
        streaming.predicted_s,
        lambda points: streaming.fit_streaming(
            points, search=SCALE.streaming, row_bytes_per_s=4e9, source=ABOUT["source"]
        ),
    ),
    "rows": (
        "elementwise",
        STREAM,
        row_kernels,
        streaming.predicted_s,
        lambda points: streaming.with_rows(
            replace(STREAM, row_bytes_per_s=1e10), points, search=SCALE.rows
        ),
    ),
}


@cache
def points_of(case: str) -> Points:
    """The noisy points of a case, one in six held out."""
    kernel, truth, sizes, predict, _ = CASES[case]
    table = measured(sizes(), predict(truth, sizes()))
    return Points(table, unseen(table, kernel, one_in=6))


@cache
def fitted(case: str) -> Any:
    """Its fit."""
    return CASES[case][-1](points_of(case))


@pytest.mark.parametrize("case", CASES)
def test_what_generated_the_points_comes_back(case: str) -> None:
    """Within a few per cent of the curve without noise and spikes, nearly everywhere."""
    _, truth, sizes, predict, _ = CASES[case]
    errors = np.abs(predict(fitted(case), sizes()) / predict(truth, sizes()) - 1)
    assert np.median(errors) < 0.02
    assert np.quantile(errors, 0.9) < 0.05
    assert errors.max() < 0.15


@pytest.mark.parametrize("case", CASES)
def test_the_residual_is_the_noise(case: str) -> None:
    """Half of a normal noise is within 0.67 of its deviation; the curve's own error adds little."""
    found = fitted(case)
    residual = found.row_residual if case == "rows" else found.residual
    assert residual.points == points_of(case).unseen.sum() >= 4
    assert 0.2 * NOISE < residual.median < 2 * NOISE


@pytest.mark.parametrize("case", CASES)
def test_held_out_points_never_enter_a_fit(case: str) -> None:
    """With their times tenfold every parameter is the same; only the residual tells."""
    points, fit = points_of(case), CASES[case][-1]
    times = np.where(points.unseen, 10.0, 1.0) * points.table["seconds"]
    again = fit(Points(points.table.assign(seconds=times), points.unseen))
    judged = {"residual": again.residual}
    if case == "rows":
        judged["row_residual"] = again.row_residual
    assert replace(fitted(case), **judged) == again
    told = again.row_residual if case == "rows" else again.residual
    assert told.median > 0.8


def test_the_domain_is_what_was_measured() -> None:
    """Held-out points too: they were measured, and the curve was judged there."""
    points = points_of("gemm")
    assert fitted("gemm").domain == {
        "m": (1.0, 4096.0),
        "n": (1024.0, 6144.0),
        "k": (1024.0, 4096.0),
    }
    curve = CASES["gemm"][-1](Points(points.table, (points.table["m"] == 4096).to_numpy()))
    assert curve.domain["m"] == (1.0, 4096.0)


@pytest.mark.parametrize(("case", "form"), [("gemm", "gemm"), ("gemm by rows", "gemm-by-rows")])
def test_the_form_that_generated_the_points_is_chosen(case: str, form: str) -> None:
    """The closed form for a roofline, the table for steps; the words say how the two compared."""
    forms = {name: CASES[name][-1] for name in ("gemm", "gemm by rows")}
    curve, how = best(forms, points_of(case), list(SIZES["gemm"]))
    assert curve.form == form
    assert how.startswith(f"forms by median error on thirds left out: {case} ")
    assert how.count("%") == 2


def test_the_tile_that_generated_the_points_is_chosen() -> None:
    """Of tiles of 32, 128 and 256 rows, prompts cut by 128 tell which."""
    forms = {
        str(tile): partial(
            attention.fit_attention,
            replace(PREFILL, tile_rows=tile, row_granule=tile, **starts(SCALE.prefill)),
            search=SCALE.prefill,
        )
        for tile in (32, 128, 256)
    }
    curve, _ = best(forms, points_of("prefill"), list(SIZES["attention_prefill"]))
    assert curve.tile_rows == 128


def test_held_out_points_take_no_part_in_the_choice() -> None:
    """Whatever their times, the same form is chosen with the same words."""
    points = points_of("gemm")
    times = np.where(points.unseen, 10.0, 1.0) * points.table["seconds"]
    forms = {name: CASES[name][-1] for name in ("gemm", "gemm by rows")}
    keys = list(SIZES["gemm"])
    spoiled = best(forms, Points(points.table.assign(seconds=times), points.unseen), keys)
    assert spoiled[1] == best(forms, points, keys)[1]


def kernel_rows(
    kernel: str, precision: str, sizes: pd.DataFrame, seconds: FloatArray
) -> pd.DataFrame:
    """Rows of a table of many kernels."""
    seed = sum(map(ord, kernel + precision))
    made: pd.DataFrame = measured(sizes, seconds, seed)
    return made.assign(kernel=kernel, precision=precision)


@cache
def everything() -> pd.DataFrame:
    """A table of all kernels of the made-up device, bf16 and fp32."""
    rows = tuple(float(m) for m in (1, 2, 3, 4, 8, 16, 24, 32, 64, 128, 256, 1024))
    head = linears(rows, ((32768, 1024), (16384, 2048)))
    ranks = product({"message_bytes": tuple(4.0**p for p in range(5, 13)), "ranks": (2.0, 4.0)})
    parts = [
        kernel_rows("all_reduce", "bf16", ranks, 1e-5 + ranks["message_bytes"].to_numpy() / 1e10)
    ]
    for precision, slower in (("bf16", 1.0), ("fp32", 2.0)):
        for kernel, table, curve, predict in (
            ("gemm", linears(rows), GEMM, gemm.predicted_s),
            ("lm_head", head, GEMM, gemm.predicted_s),
            ("attention_extend", extends(), EXTEND, attention.predicted_s),
            ("attention_prefill", prompts(), PREFILL, attention.predicted_s),
            ("moe", routed(), MOE, moe.predicted_s),
            ("elementwise", streams(), STREAM, streaming.predicted_s),
            ("elementwise", row_kernels(), STREAM, streaming.predicted_s),
        ):
            made: Predict = predict
            # A byte is a byte in any data type.
            times = 1.0 if kernel == "elementwise" else slower
            parts.append(kernel_rows(kernel, precision, table, times * made(curve, table)))
    return pd.concat(parts, ignore_index=True)


DEVICE = Device(
    name="made-up",
    description="a device that never was",
    memory_bytes=1e10,
    last_level_cache_bytes=1e7,
    multiprocessors=8,
    source="nobody, 2026",
    key_splits=8,
    environment={"torch": "none"},
    points="made-up.parquet",
    notes={"gemm": "a note about products"},
)


@cache
def whole_profile() -> HardwareProfile:
    """The profile of all of it."""
    return fit_profile(everything(), DEVICE)


def test_a_profile_of_everything() -> None:
    """Every kernel and data type has a curve near what generated it, and says where it is from."""
    kernels = whole_profile().kernels
    for curves in (kernels.gemm, kernels.lm_head, kernels.attention_extend, kernels.moe):
        assert set(curves) == {"bf16", "fp32"}
    assert kernels.all_reduce is not None
    for kernel, _, curve in kernels.curves():
        assert curve.residual.points >= 3
        # Leaving out a size of a coarse table says how coarse it is.
        assert curve.residual.median < (1.0 if kernel == "all_reduce" else 0.1)
        assert curve.source.text.startswith("nobody, 2026")
    assert "a note about products" in kernels.gemm["bf16"].source.text
    sizes = linears((1.0, 16.0, 200.0))
    for precision, slower in (("bf16", 1.0), ("fp32", 2.0)):
        found = gemm.predicted_s(kernels.gemm[precision], sizes)
        errors = found / (slower * gemm.predicted_s(GEMM, sizes)) - 1
        assert np.median(np.abs(errors)) < 0.05
    peaks = whole_profile().peaks
    assert peaks.source.kind == "measured"
    assert peaks.flop_per_s("bf16") == pytest.approx(8e12, rel=0.2)
    assert peaks.flop_per_s("fp32") == pytest.approx(4e12, rel=0.2)
    assert peaks.fp8_flop_per_s is None


def read_back(profile: HardwareProfile) -> HardwareProfile:
    """The profile that its document is read as."""
    text = document(profile, "blockcast profile", "as the machine tells")
    return TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))


def test_its_document_reads_back_equal() -> None:
    """What is written for a person is the same profile to the program, checked in full."""
    assert read_back(whole_profile()) == whole_profile()


def test_order_of_points_does_not_matter_much() -> None:
    """The same points shuffled give the same products: which are held out goes by size."""
    shuffled = everything().sample(frac=1.0, random_state=3)
    again, first = (
        Measured(table, DEVICE).dense("gemm")["bf16"] for table in (shuffled, everything())
    )
    sizes = linears((1.0, 16.0, 200.0))
    assert again.residual.points == first.residual.points
    assert gemm.predicted_s(again, sizes) == pytest.approx(gemm.predicted_s(first, sizes), rel=0.01)


def test_a_profile_without_what_was_not_measured() -> None:
    """No experts, no second device, one data type: those curves are absent, the rest are there."""
    table = everything()
    kept = table[(table["precision"] == "bf16") & ~table["kernel"].isin(["moe", "all_reduce"])]
    profile = fit_profile(kept, replace(DEVICE, environment=None, points=None))
    assert profile.kernels.moe == {}
    assert profile.kernels.all_reduce is None
    assert set(profile.kernels.gemm) == set(profile.kernels.attention_prefill) == {"bf16"}
    assert profile.peaks.fp32_flop_per_s is None
    assert read_back(profile) == profile


def test_a_table_is_tried_where_the_device_says_so() -> None:
    """On a CPU both forms of a product are compared, and the source says how."""
    table = everything()
    kept = table[(table["precision"] == "bf16") & table["kernel"].isin(["gemm", "elementwise"])]
    curve = Measured(kept, replace(DEVICE, tabulates=True)).dense("gemm")["bf16"]
    for words in ("closed form ", "table by rows ", "a note about products"):
        assert words in curve.source.text


def test_peaks_of_a_data_sheet_stay() -> None:
    """What is known of the device is not replaced by what was measured of it."""
    known = replace(whole_profile().peaks, bf16_flop_per_s=1e15)
    table = everything()
    kept = table[(table["precision"] == "bf16") & (table["kernel"] != "moe")]
    profile = fit_profile(kept, replace(DEVICE, peaks=known))
    assert profile.peaks == known
    assert profile.kernels.gemm["bf16"].form == "gemm"


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("seconds", -1e-6, "seconds of row 4: -1e-06"),
        ("seconds", 0.0, "seconds of row 4: 0.0"),
        ("seconds", np.nan, "seconds of row 4: nan"),
        ("seconds", np.inf, "seconds of row 4: inf"),
        ("m", -3.0, "m of row 4: -3.0"),
        ("k", np.nan, "k of row 4: nan"),
    ],
)
def test_what_is_no_measurement_is_refused(column: str, value: float, told: str) -> None:
    """A time that is not above zero and finite, or a size that is not there, by row and value."""
    table = everything().copy()
    at = table.index[(table["kernel"] == "gemm") & (table["precision"] == "bf16")][4]
    table.loc[at, column] = value
    with pytest.raises(MeasurementError, match=rf"nobody, 2026: gemm points.*{told}"):
        fit_profile(table, DEVICE)


def test_text_for_a_number_is_refused() -> None:
    """A word in a column of times is told like any wrong number."""
    table = everything().astype({"seconds": object})
    at = table.index[table["kernel"] == "elementwise"][0]
    table.loc[at, "seconds"] = "fast"
    with pytest.raises(MeasurementError, match=r"elementwise points.*seconds of row 0: fast"):
        fit_profile(table, DEVICE)


def test_only_the_first_wrong_numbers_are_shown() -> None:
    """Five are named, and how many more there are."""
    table = everything().copy()
    rows = table.index[(table["kernel"] == "gemm") & (table["precision"] == "bf16")]
    table.loc[rows[:8], "seconds"] = -1.0
    with pytest.raises(MeasurementError, match=r"row 4: -1\.0 and 3 more$"):
        fit_profile(table, DEVICE)


def test_missing_columns_are_named() -> None:
    """A table without its sizes says which, and of which kernel."""
    table = everything().drop(columns=["head_dim", "kv_heads"])
    with pytest.raises(MeasurementError, match=r"attention_\w+ points have no column kv_heads, he"):
        fit_profile(table, DEVICE)


@pytest.mark.parametrize(
    "kernel", ["gemm", "lm_head", "attention_extend", "attention_prefill", "elementwise"]
)
def test_too_few_points_are_told(kernel: str) -> None:
    """How many there are and how many a curve takes; none at all is no exception."""
    table = everything()
    mine = table["kernel"] == kernel
    some = table[mine & (table["precision"] == "bf16")].head(LEAST_POINTS - 1)
    for kept, count in ((pd.concat([table[~mine], some]), LEAST_POINTS - 1), (table[~mine], 0)):
        rule = f"{kernel} has {count} points of one data type; a curve takes {LEAST_POINTS}"
        with pytest.raises(MeasurementError, match=rule):
            Measured(kept, DEVICE).required(kernel)


def test_a_table_of_nothing_is_told() -> None:
    """Columns without rows are too few points like any others."""
    with pytest.raises(MeasurementError, match="attention_prefill has 0 points"):
        fit_profile(everything().head(0), DEVICE)


def raw(**columns: list[Any]) -> pd.DataFrame:
    """Raw samples of one kernel on two head shapes, measured unless said otherwise."""
    count = len(columns["seconds"])
    usual: dict[str, list[Any]] = {
        "kernel": ["attention_extend"] * count,
        "precision": ["bf16"] * count,
        "operation": ["whole"] * count,
        "backend": ["sdpa"] * count,
        "status": ["measured"] * count,
        "sequences": [1.0] * count,
        "query_tokens": [4.0] * count,
        "kv_tokens": [100.0] * count,
        "query_heads": [8.0] * count,
        "kv_heads": [2.0] * count,
        "head_dim": [64.0] * count,
    }
    return pd.DataFrame(usual | columns)


def test_the_fastest_backend_is_kept() -> None:
    """One row per size, whichever library was quickest there."""
    samples = raw(
        seconds=[3.0, 2.0, 5.0, 4.0, 6.0],
        backend=["flash", "cudnn", "flex", "flash", "cudnn"],
        kv_tokens=[100.0, 100.0, 100.0, 200.0, 200.0],
    )
    found = fitted_rows(samples)
    assert sorted(zip(found["backend"], found["seconds"], strict=True)) == [
        ("cudnn", 2.0),
        ("flash", 4.0),
    ]


def test_rows_without_a_time_or_with_a_mask_are_left_out() -> None:
    """What was skipped, and queries over a prefix that are masked among themselves."""
    samples = raw(
        seconds=[1.0, np.nan, 3.0, 4.0],
        status=["measured", "skipped: out of memory", "measured", "measured"],
        operation=["whole", "whole", "causal", "causal"],
        kernel=["attention_extend"] * 3 + ["attention_prefill"],
        query_tokens=[4.0, 8.0, 16.0, 100.0],
    )
    assert sorted(fitted_rows(samples)["seconds"]) == [1.0, 4.0]


def test_operations_of_one_size_are_different_rows() -> None:
    """A norm and a rotary that move as much are both kept, also where a kernel lacks a size."""
    samples = raw(
        seconds=[1.0, 2.0],
        kernel=["elementwise"] * 2,
        operation=["norm", "rotary"],
        sequences=[None, None],
        kv_tokens=[np.nan, np.nan],
    )
    assert sorted(fitted_rows(samples)["seconds"]) == [1.0, 2.0]


def test_a_mask_over_the_whole_by_hand() -> None:
    """3 over 2 and 8 over 4, the fastest unmasked each: 1.75 in the middle, two points."""
    samples = raw(
        seconds=[3.0, 2.0, 9.0, 8.0, 4.0, 7.0],
        operation=["causal", "whole", "whole", "causal", "whole", "causal"],
        kv_tokens=[100.0, 100.0, 100.0, 200.0, 200.0, 300.0],
    )
    assert masked_over_whole(samples) == (1.75, 2)


def test_no_mask_tells_nothing() -> None:
    """Without masked points, or without the same ones unmasked, there is no ratio."""
    assert masked_over_whole(raw(seconds=[1.0, 2.0])) is None
    alone = raw(seconds=[1.0, 2.0], operation=["causal", "whole"], kv_tokens=[100.0, 200.0])
    assert masked_over_whole(alone) is None


def test_a_table_by_rows_beyond_its_ends() -> None:
    """Flat below the first row, in proportion beyond the last, a power law in between."""
    curve = replace(BY_ROWS, rows=[2.0, 8.0, 16.0], weight_s=[1e-11, 4e-11, 5e-11])
    found = curve.weight_time_s(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 160.0]))
    assert found == pytest.approx([1e-11, 1e-11, 2e-11, 4e-11, 5e-11, 10e-11, 50e-11])
    assert float(curve.time(0, 100, 100).seconds) == 0.0
    assert float(curve.time(4, 100, 1000).seconds) == pytest.approx(8e-6 + 1e5 * 2e-11)


TABLES = st.lists(
    st.tuples(st.floats(1.0, 1e4), st.floats(1e-14, 1e-8)), min_size=2, max_size=8
).map(
    lambda pairs: (
        list(np.cumsum(sorted(rows for rows, _ in pairs))),
        sorted(times for _, times in pairs),
    )
)


@given(TABLES, st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.sampled_from(LINEARS))
def test_more_rows_never_take_less(
    table: tuple[list[float], list[float]], one: float, other: float, shape: tuple[int, int]
) -> None:
    """Nor a larger matrix; and no limit alone is above the time."""
    curve = replace(BY_ROWS, rows=table[0], weight_s=table[1])
    low, high = sorted((one, other))
    times = curve.time([low, high], *shape).seconds
    assert times[0] <= times[1] * (1 + 1e-9)
    larger = curve.time(high, 2 * shape[0], shape[1])
    assert times[1] <= larger.seconds * (1 + 1e-9)
    for limit_s in (larger.compute_s, larger.memory_s, larger.launch_s):
        assert 0 <= limit_s <= larger.seconds


@given(TABLES, st.integers(0, 7))
def test_tabulated_rows_are_what_the_table_says(
    table: tuple[list[float], list[float]], index: int
) -> None:
    """At a row of the table its own time comes out."""
    curve, at = replace(BY_ROWS, rows=table[0], weight_s=table[1]), index % len(table[0])
    assert curve.weight_time_s(np.array(table[0][at])) == pytest.approx(table[1][at])


@pytest.mark.parametrize(
    ("sizes", "times", "told"),
    [
        ([1.0], [1.0], "rows and weight_s have as many entries, at least two, got 1 and 1"),
        ([1.0, 2.0], [1.0], "at least two, got 2 and 1"),
        ([1.0, 3.0, 3.0], [1.0] * 3, "rows rises from row to row, got 3 before 3"),
        (
            [1.0, 2.0, 4.0],
            [1.0, 3.0, 2.0],
            r"weight_s never goes down as rows goes up, but does from 2 to 4 \(3 s to 2 s\)",
        ),
        (
            [float(i) for i in range(9)],
            [float(-i) for i in range(9)],
            r"4 to 5 \(-4 s to -5 s\) and 3 more",
        ),
    ],
)
def test_tables_that_do_not_rise_are_refused(
    sizes: list[float], times: list[float], told: str
) -> None:
    """The rows that break the rule are named, five of them at most."""
    with pytest.raises(ValueError, match=told):
        check_rising("rows", sizes, "weight_s", times)
    with pytest.raises(ValueError, match=told):
        replace(BY_ROWS, rows=sizes, weight_s=times)


class Falling(GemmCurve):
    """Takes half as long from 100 rows on."""

    def time(self, m: Any, n: Any, k: Any) -> Any:
        """As it should not be."""
        whole = super().time(m, n, k)
        return replace(whole, seconds=np.where(np.asarray(m) >= 100, 0.5, 1.0) * whole.seconds)


def test_a_falling_curve_is_seen() -> None:
    """The two sizes between which the time goes down stand in the sentence with both times."""
    curve = Falling(**vars(GEMM))
    (sentence,) = falls("gemm", curve)
    assert "s at m " in sentence
    before, after = (float(part.rsplit(" ", 1)[1]) for part in sentence.split(", but "))
    assert before < 100 <= after
    assert falls("gemm", GEMM) == []


@pytest.mark.parametrize(
    ("kernel", "curve"),
    [
        ("lm_head", BY_ROWS),
        ("attention_extend", EXTEND),
        ("attention_prefill", PREFILL),
        ("moe", MOE),
        ("elementwise", STREAM),
    ],
)
def test_curves_that_rise_are_let_through(kernel: str, curve: Any) -> None:
    """Each form with usual parameters."""
    assert falls(kernel, curve) == []


def test_a_profile_with_a_falling_curve_is_refused() -> None:
    """Kernel, data type and points are named."""
    profile = whole_profile()
    kernels = replace(profile.kernels, gemm={"fp32": Falling(**vars(GEMM))})
    with pytest.raises(ValueError, match=r"never takes less time; gemm fp32: .* s at m \d+, but"):
        replace(profile, kernels=kernels)


def test_a_file_with_a_falling_table_is_refused(tmp_path: Any) -> None:
    """A user's own profile in which a product gets faster says where."""
    profile = whole_profile()
    curve = replace(BY_ROWS, domain={"m": (1.0, 2.0), "n": (1.0, 2.0), "k": (1.0, 2.0)})
    text = document(replace(profile, kernels=replace(profile.kernels, gemm={"bf16": curve})))
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert HARDWARE.get(str(path)).kernels.gemm["bf16"] == curve
    assert "7.1e-11" in text
    path.write_text(text.replace("7.1e-11", "6.1e-11"), encoding="utf-8")
    with pytest.raises(DocumentError, match=r"weight_s never goes down .* from 8 to 16"):
        HARDWARE.get(str(path))
