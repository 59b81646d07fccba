"""Vidur's tables as points: sizes counted per GPU, cold ones only, and mistakes named."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hwprofiles.fitting import attention, gemm, streaming
from hwprofiles.fitting.judging import residual
from hwprofiles.importers.imported import Imported
from hwprofiles.importers.known_gpus import Board
from hwprofiles.importers.table import TableError
from hwprofiles.importers.vidur import read
from tests.hwprofiles.made_up_tables import (
    CHIP,
    VIDUR_ROW_BYTES,
    VIDUR_SHAPES,
    put_vidur,
    truth,
    vidur_layers,
)

BOARD = Board("a made-up GPU", CHIP, 141e9, "made up", truth().peaks)


def imported(folder: Path) -> Imported:
    """What is read of a folder of a board like the one whose curves the times are from."""
    return read(folder, BOARD, name="made-up", points="made-up.parquet")


def points(made: Imported, kernel: str) -> pd.DataFrame:
    """The points of one kernel."""
    return made.points[made.points["kernel"] == kernel]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Llama-2-70B's tables, read once."""
    return imported(put_vidur(tmp_path_factory.mktemp("vidur")))


def test_products_have_the_shapes_of_one_gpu(made_up: Imported) -> None:
    """Of a 70B layer on one and on four GPUs, counted by hand."""
    found = points(made_up, "gemm")
    shapes = {(int(n), int(k)) for n, k in zip(found["n"], found["k"], strict=True)}
    assert shapes == {shape for layer in VIDUR_SHAPES.values() for shape in layer.values()}
    assert set(found["precision"]) == {"bf16"}


def test_row_kernels_and_streams(made_up: Imported) -> None:
    """Rows of few tokens by hand; additions that exceed the cache, and tiny ones, as streams."""
    found = points(made_up, "elementwise")
    by_row = found[found["row_bytes"] > 0]
    expected = {size for layer in VIDUR_ROW_BYTES.values() for size in layer.values()}
    assert set(by_row["row_bytes"]) == expected
    assert (by_row["bytes_moved"] / by_row["row_bytes"]).max() == 256
    # 6 bytes of 8192 elements are 49152 bytes a token: 60 MB at 1221 tokens, 0.5 MB at 10.
    streams = found[found["row_bytes"] == 0]["bytes_moved"] / 49152
    assert sorted(streams) == [1, 4, 8, 1536, 2048, 3072, 4096]


def test_attention_has_the_heads_of_one_gpu(made_up: Imported) -> None:
    """64 query heads on 8 KV heads, divided among 1, 2 and 4; no chunk with a prefix is taken."""
    prompts, queries = points(made_up, "attention_prefill"), points(made_up, "attention_extend")
    for found in (prompts, queries):
        heads = set(zip(found["query_heads"], found["kv_heads"], strict=True))
        assert heads == {(64, 8), (32, 4), (16, 2)}
        assert set(found["head_dim"]) == {128}
    assert (prompts["kv_tokens"] == prompts["query_tokens"]).all()
    assert len(prompts) == 3 * 7
    kv_bytes = attention.kv_bytes(queries)
    assert ((kv_bytes >= 60e6) | (kv_bytes < 2e6)).all()
    assert set(queries["kv_tokens"]) <= {64, 1024, 4096, 16384}


def test_the_curves_come_back(made_up: Imported) -> None:
    """Tables with the times of known curves give them back, row bandwidth included."""
    kernels = made_up.profile().kernels
    rows = points(made_up, "elementwise")
    judged = {
        "gemm": gemm.predicted_s(kernels.gemm["bf16"], points(made_up, "gemm")),
        "attention_extend": attention.predicted_s(
            kernels.attention_extend["bf16"], points(made_up, "attention_extend")
        ),
        "attention_prefill": attention.predicted_s(
            kernels.attention_prefill["bf16"], points(made_up, "attention_prefill")
        ),
        "elementwise": streaming.predicted_s(kernels.elementwise, rows),
    }
    for kernel, predicted_s in judged.items():
        assert residual(predicted_s, points(made_up, kernel)["seconds"]).p90 < 0.04, kernel
    known = truth().kernels.elementwise.row_bytes_per_s
    assert kernels.elementwise.row_bytes_per_s == pytest.approx(known, rel=0.05)


def test_what_vidur_lacks_is_said(made_up: Imported) -> None:
    """No experts, no all-reduce, and an LM head that is the other products'."""
    profile = made_up.profile()
    assert profile.kernels.moe == {}
    assert profile.kernels.all_reduce is None
    assert "no LM head was measured" in profile.kernels.lm_head["bf16"].source.text
    assert "fp16: llama-2-70b" in profile.kernels.gemm["bf16"].source.text
    assert (profile.memory_bytes, profile.points) == (141e9, "made-up.parquet")


def test_a_layer_within_the_cache_is_left_out(tmp_path: Path) -> None:
    """A layer of 72 MB at least is cold in a 50 MB cache; on 32 GPUs 70B has 53 MB of weights."""
    layers = vidur_layers()
    both = pd.concat([layers, layers.assign(num_tensor_parallel_workers=32)])
    folder = put_vidur(tmp_path)
    both.to_csv(folder / "llama-2-70b" / "mlp.csv", index=False)
    found = points(imported(folder), "gemm")
    assert found["k"].min() == 2048


def test_models_share_their_sizes_by_median(tmp_path: Path) -> None:
    """Of three models with the same shapes, at 1, 1 and 50 times the time, the middle counts."""
    layers = vidur_layers()
    times = [name for name in layers.columns if name.startswith("time_stats")]
    folder = put_vidur(tmp_path)
    before = points(imported(folder), "gemm")
    put_vidur(tmp_path, "again")
    slow: dict[str, Any] = {f"mlp__{name}": 50 * layers[name] for name in times}
    put_vidur(tmp_path, "slow", **slow)
    after = points(imported(folder), "gemm")
    assert after["seconds"].to_numpy() == pytest.approx(before["seconds"].to_numpy())


def test_an_ungated_model_has_one_up_projection(tmp_path: Path) -> None:
    """Half the outputs of a gated one; its activation reads one width and writes one."""
    folder = put_vidur(tmp_path, mlp__use_gated_mlp=False)
    made = imported(folder)
    assert {28672, 7168} <= set(points(made, "gemm")["n"])
    assert 57344 not in set(points(made, "gemm")["n"])
    assert 2 * 2 * 28672 in set(points(made, "elementwise")["row_bytes"])


def test_a_model_without_rotary_embeddings(tmp_path: Path) -> None:
    """Its times are missing; everything else is taken."""
    without: dict[str, Any] = {"mlp__time_stats.attn_rope.median": np.nan}
    folder = put_vidur(tmp_path, **without)
    assert 36864 not in set(points(imported(folder), "elementwise")["row_bytes"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mlp__time_stats.mlp_up_proj.median": -1.0}, "mlp_up_proj.median of row 0: -1.0"),
        ({"mlp__time_stats.add.median": np.nan}, "add.median of row 0: nan"),
        ({"mlp__n_head": 0}, "n_head of row 0: 0"),
        ({"mlp__n_embd": "wide"}, "n_embd of row 0: wide"),
        ({"attention__batch_size": -4}, "batch_size of row 0: -4"),
        ({"attention__time_stats.attn_decode.median": np.nan}, "attn_decode.median of row 14: nan"),
    ],
)
def test_wrong_numbers_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """The table, the row's number in it, and the value."""
    with pytest.raises(TableError, match=words) as caught:
        imported(put_vidur(tmp_path, **changes))
    assert caught.value.origin.endswith(".csv")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("mlp", "n_expanded_embd"),
        ("mlp", "time_stats.attn_pre_proj.median"),
        ("mlp", "time_stats.add.median"),
        ("attention", "is_prefill"),
        ("attention", "time_stats.attn_prefill.median"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, table: str, column: str) -> None:
    """By table and column."""
    folder = put_vidur(tmp_path)
    path = folder / "llama-2-70b" / f"{table}.csv"
    pd.read_csv(path).drop(columns=column).to_csv(path, index=False)
    with pytest.raises(TableError, match=f"has no column {column}") as caught:
        imported(folder)
    assert caught.value.origin == str(path)


def test_missing_and_unreadable_tables(tmp_path: Path) -> None:
    """A folder without tables, one without attention, and a file that is no table."""
    with pytest.raises(TableError, match=r"has no mlp.csv"):
        imported(tmp_path)
    folder = put_vidur(tmp_path)
    path = folder / "llama-2-70b" / "attention.csv"
    path.write_bytes(b"\xff\xfe\x00,\n")
    with pytest.raises(TableError, match="no readable CSV"):
        imported(folder)
    path.unlink()
    with pytest.raises(TableError, match=r"has no attention.csv"):
        imported(folder)


def test_a_table_of_hot_layers_alone_gives_no_profile(tmp_path: Path) -> None:
    """What fits into the cache would give a bandwidth that no model sees."""
    layers = vidur_layers().assign(num_tensor_parallel_workers=32, num_tokens=64)
    folder = put_vidur(tmp_path)
    layers.to_csv(folder / "llama-2-70b" / "mlp.csv", index=False)
    with pytest.raises(TableError, match="no times of gemm, lm_head beyond what fits"):
        imported(folder)
    vidur_layers().query("num_tokens < 64").to_csv(folder / "llama-2-70b" / "mlp.csv", index=False)
    with pytest.raises(TableError, match=r"no times of elementwise \(add\)"):
        imported(folder)
