"""How far the shipped curves are from the measured times, and the most they may be.

Medians over frameworks, cold sizes, all points (those held out are in the documents' residuals).
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from hwprofiles import HardwareProfile
from hwprofiles.derive import all_reduce, attention, gemm, moe, streaming
from hwprofiles.derive.datasheet import SHEETS
from hwprofiles.derive.measured import COLD_BYTES, read_table
from hwprofiles.fitting import all_reduce as all_reduce_fit
from hwprofiles.fitting import attention as attention_fit
from hwprofiles.fitting import gemm as gemm_fit
from hwprofiles.fitting import moe as moe_fit


@pytest.fixture(autouse=True)
def derived(profile: HardwareProfile) -> None:
    """Skip profiles that were not derived from these tables."""
    if profile.name not in SHEETS:
        pytest.skip(f"{profile.name} is not derived from these tables")


def gpu_of(profile: HardwareProfile) -> str:
    """The GPU's name in the tables."""
    return SHEETS[profile.name].measured_as


def errors(predicted_s: npt.ArrayLike, rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """|predicted/measured - 1| of each row."""
    predicted = np.asarray(predicted_s, dtype=np.float64)
    relative = predicted / rows["seconds"].to_numpy(dtype=np.float64) - 1.0
    return np.asarray(np.abs(relative), dtype=np.float64)


def test_bf16_gemm(profile: HardwareProfile, measured: Path) -> None:
    """Weights of 12 MB and more: median within 5 %, nine in ten within 15 %."""
    rows = gemm.measured_points(read_table(measured, "gemm"), gpu_of(profile), "bf16")
    rows = rows[gemm.is_cold(rows, "bf16")]
    found = errors(gemm_fit.predicted_s(profile.kernels.gemm["bf16"], rows), rows)
    assert len(found) > 5_000
    assert np.median(found) <= 0.05
    assert np.quantile(found, 0.9) <= 0.15


def test_fp8_gemm(profile: HardwareProfile, measured: Path) -> None:
    """Kernels differ more between frameworks: median within 10 %, nine in ten within 25 %."""
    rows = gemm.measured_points(read_table(measured, "gemm"), gpu_of(profile), "fp8")
    rows = rows[gemm.is_cold(rows, "fp8")]
    found = errors(gemm_fit.predicted_s(profile.kernels.gemm["fp8"], rows), rows)
    assert np.median(found) <= 0.10
    assert np.quantile(found, 0.9) <= 0.25


def test_lm_head(profile: HardwareProfile, measured: Path) -> None:
    """The widest products: median within 5 %, and nearer than the general curve."""
    dense, llama = (read_table(measured, name) for name in ("gemm", "gemm_llama_layers_h100"))
    rows = gemm.lm_head_points(dense, llama, gpu_of(profile))
    own, general = (
        np.median(errors(gemm_fit.predicted_s(curves["bf16"], rows), rows))
        for curves in (profile.kernels.lm_head, profile.kernels.gemm)
    )
    assert own <= 0.05
    assert own <= general


def test_decode_attention(profile: HardwareProfile, measured: Path) -> None:
    """Caches of 60 MB and more: median within 6 %, nine in ten within 17 %."""
    rows = attention.extend_points(read_table(measured, "attention_generation"), gpu_of(profile))
    rows = rows[attention.is_cold(rows)]
    found = errors(attention_fit.predicted_s(profile.kernels.attention_extend["bf16"], rows), rows)
    assert len(found) > 1_000
    assert np.median(found) <= 0.06
    assert np.quantile(found, 0.9) <= 0.17


@pytest.mark.parametrize("heads_per_kv_head", [64, 96, 128])
def test_attention_of_many_rows(
    profile: HardwareProfile, measured: Path, heads_per_kv_head: int
) -> None:
    """What stands for blocks of queries: 64, 96 and 128 rows per KV head, within 8 %."""
    rows = attention.extend_points(read_table(measured, "attention_generation"), gpu_of(profile))
    rows = rows[attention.is_cold(rows)]
    rows = rows[rows["query_heads"] == heads_per_kv_head * rows["kv_heads"]]
    assert len(rows) >= 5
    found = errors(attention_fit.predicted_s(profile.kernels.attention_extend["bf16"], rows), rows)
    assert np.median(found) <= 0.08


def test_one_row_table_call_is_a_batch_call(profile: HardwareProfile) -> None:
    """The tables are asked for as one long sequence of heads; a batch asked plainly agrees."""
    curve = profile.kernels.attention_extend["bf16"]
    row = pd.DataFrame(
        [
            {
                "sequences": 48,
                "query_tokens": 1,
                "kv_tokens": 3000,
                "query_heads": 32,
                "kv_heads": 8,
                "head_dim": 128,
            }
        ]
    )
    plain = curve.time(
        [1] * 48, [3000] * 48, query_heads=32, kv_heads=8, head_dim=128, kv_element_bytes=2.0
    )
    assert attention_fit.predicted_s(curve, row)[0] == pytest.approx(
        float(plain.seconds), rel=1e-12
    )


def test_prompt_attention(profile: HardwareProfile, measured: Path) -> None:
    """Prompts of 16 tokens and more: median within 7 %, nine in ten within 17 %."""
    rows = attention.prefill_points(read_table(measured, "attention_context"), gpu_of(profile))
    found = errors(attention_fit.predicted_s(profile.kernels.attention_prefill["bf16"], rows), rows)
    assert np.median(found) <= 0.07
    assert np.quantile(found, 0.9) <= 0.17


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_mini_moe(profile: HardwareProfile, measured: Path, weights: str) -> None:
    """Hidden 2048, width 512, 256 experts, top 8: median within 3 %."""
    rows = moe.measured_points(read_table(measured, "moe"), gpu_of(profile), weights)
    rows = rows[moe.is_mini(rows) & (rows["tp"] == 1)]
    found = errors(moe_fit.predicted_s(profile.kernels.moe[weights], rows), rows)
    assert len(found) > 20
    assert np.median(found) <= 0.03


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_every_moe(profile: HardwareProfile, measured: Path, weights: str) -> None:
    """All shapes: median within 4 %, nine in ten within 15 %."""
    rows = moe.measured_points(read_table(measured, "moe"), gpu_of(profile), weights)
    found = errors(moe_fit.predicted_s(profile.kernels.moe[weights], rows), rows)
    assert np.median(found) <= 0.04
    assert np.quantile(found, 0.9) <= 0.15


def test_elementwise(profile: HardwareProfile, measured: Path) -> None:
    """Tensors of 60 MB and more: nine in ten within 5 %."""
    rows = streaming.measured_points(read_table(measured, "mem_bw"), gpu_of(profile))
    rows = rows[streaming.is_cold(rows)]
    found = errors(profile.kernels.elementwise.time(rows["bytes_moved"]).seconds, rows)
    assert np.quantile(found, 0.9) <= 0.05


@pytest.mark.parametrize(("operator", "within"), [("rope", 0.25), ("silu_and_mul", 0.25)])
def test_row_kernels(
    profile: HardwareProfile, measured: Path, operator: str, within: float
) -> None:
    """Rotary and SwiGLU of few tokens: median within 25 %, of figures read to about 1 us."""
    if profile.name != "h100-sxm":
        pytest.skip("Vidur measured an H100")
    rows = streaming.row_points(read_table(measured, "elementwise_vidur_h100"))
    rows = rows[rows["op"] == operator]
    curve = profile.kernels.elementwise
    streamed = curve.time(rows["bytes_moved"]).seconds
    predicted = streamed + rows["row_bytes"] / curve.row_bytes_per_s
    assert np.median(np.abs(predicted / rows["seconds"] - 1)) <= within


def test_residual_add(profile: HardwareProfile, measured: Path) -> None:
    """A plain stream that no fit saw, of 60 MB and more, takes what the curve says to 15 %."""
    if profile.name != "h100-sxm":
        pytest.skip("Vidur measured an H100")
    table = read_table(measured, "elementwise_vidur_h100")
    rows = table[table["op"] == "residual_add"]
    moved = 6.0 * rows["num_tokens"] * rows["hidden"]
    cold = moved >= COLD_BYTES
    found = profile.kernels.elementwise.time(moved[cold]).seconds
    ratio = np.median(rows["latency_us"][cold].to_numpy() * 1e-6 / found)
    assert ratio == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("ranks", "most"), [(2, 0.10), (4, 0.10), (8, 0.10)])
def test_all_reduce(profile: HardwareProfile, measured: Path, ranks: int, most: float) -> None:
    """Each size as the table without it has it: median within 10 %."""
    rows = all_reduce.measured_points(read_table(measured, "allreduce"), gpu_of(profile))
    rows = rows[rows["num_gpus"] == ranks]
    sizes, seconds = (rows[name].to_numpy(dtype=np.float64) for name in ("bytes", "seconds"))
    found = errors(all_reduce_fit.left_out_s(sizes, seconds), rows.iloc[1:-1])
    assert np.median(found) <= most
    curve = profile.kernels.all_reduce
    assert curve is not None
    assert np.median(errors(curve.time(sizes, ranks).seconds, rows)) <= most
