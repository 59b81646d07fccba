"""Tables in the formats of aiconfigurator-core and Vidur, with times that known curves give."""

import itertools
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles import HardwareProfile
from hwprofiles.fitting.attention import predicted_s as attention_s
from hwprofiles.importers.known_gpus import Chip

CHIP = Chip(50e6, 132, "made up")
SYSTEM = "made_up"
VERSIONS = {"sglang": "0.5.14", "trtllm": "1.3.0rc20", "vllm": "0.24.0"}
FACTS = {
    "gpu": {
        "mem_bw": 4_800_000_000_000,
        "mem_capacity": 141_000_000_000,
        "bfloat16_tc_flops": 989_000_000_000_000,
        "fp8_tc_flops": 1_978_000_000_000_000,
    },
    "node": {"intra_node_bw": 450_000_000_000},
}
HOT = 0.2
"""A weight in the cache takes this share of its time; no fit may see it."""


@cache
def truth() -> HardwareProfile:
    """The curves that the times come from: those of the shipped H200."""
    text = (hwprofiles.DATA / "h200-sxm.yaml").read_text(encoding="utf-8")
    return TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))


def package(folder: Path, tables: Mapping[tuple[str, str], pd.DataFrame] | None = None) -> Path:
    """A folder `systems` like the package's, with one system; returns it."""
    systems = folder / "aiconfigurator_core" / "systems"
    systems.mkdir(parents=True)
    # Nothing may run the package's own code.
    (folder / "aiconfigurator_core" / "__init__.py").write_text("raise RuntimeError\n")
    (systems / f"{SYSTEM}.yaml").write_text(yaml.safe_dump(FACTS))
    for (family, name), rows in (tables or whole()).items():
        for framework in VERSIONS:
            put(systems, family, name, rows, framework)
    return systems


def put(
    systems: Path,
    family: str,
    name: str,
    rows: pd.DataFrame,
    framework: str = "vllm",
    version: str | None = None,
) -> Path:
    """Write one table of a framework, in its usual version unless another is given."""
    kept = version or VERSIONS[framework]
    path = systems / "data" / SYSTEM / family / framework / kept / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.to_parquet(path)
    return path


def whole() -> dict[tuple[str, str], pd.DataFrame]:
    """Every table that an import reads, the same for all frameworks."""
    return {
        ("gemm", "gemm_perf"): products(),
        ("attention", "context_attention_perf"): prompts(),
        ("attention", "generation_attention_perf"): queries(),
        ("moe", "moe_perf"): experts(),
        ("quantize", "scale_matrix_perf"): quantisations(),
        ("comm", "custom_allreduce_perf"): all_reduces(),
    }


def grid(**values: Iterable[float]) -> pd.DataFrame:
    """Every combination of *values*."""
    return pd.DataFrame(itertools.product(*values.values()), columns=list(values))


def products(dtype: str = "bfloat16") -> pd.DataFrame:
    """Times of bf16 weights; those that fit into the cache take less."""
    rows = grid(
        m=(1, 4, 8, 16, 64, 128, 256, 1024, 4096),
        n=(256, 1024, 4096, 12288, 65536),
        k=(256, 1024, 4096, 8192),
    )
    times = truth().kernels.gemm["bf16"].time(*(rows[name].to_numpy(float) for name in "mnk"))
    weight_bytes = 2.0 * rows["n"] * rows["k"]
    is_hot = weight_bytes.between(1e6, 12e6)
    latency = 1e3 * times.seconds * np.where(is_hot, HOT, 1.0)
    return rows.assign(gemm_dtype=dtype, kernel_source="linear", latency=latency)


def prompts() -> pd.DataFrame:
    """Times of whole prompts."""
    rows = grid(
        batch_size=(1, 2, 8, 32),
        isl=(16, 128, 512, 1024, 4096),
        num_heads=(8, 32),
        num_key_value_heads=(1, 8),
    )
    return _attention(rows.assign(step=0), "attention_prefill")


def queries() -> pd.DataFrame:
    """Times of single queries over a prefix; a cache within L2 takes less."""
    rows = grid(
        batch_size=(1, 4, 16, 64, 128),
        step=(1, 7, 127, 1023, 4095, 16383, 65535),
        num_heads=(8, 32),
        num_key_value_heads=(1, 8),
    )
    made = _attention(rows.assign(isl=1), "attention_extend")
    kv_bytes = 512.0 * made["batch_size"] * (made["step"] + 1) * made["num_key_value_heads"]
    is_hot = kv_bytes.between(2e6, 60e6)
    return made.assign(latency=made["latency"] * np.where(is_hot, HOT, 1.0))


def _attention(rows: pd.DataFrame, kernel: str) -> pd.DataFrame:
    sizes = pd.DataFrame(
        {
            "sequences": rows["batch_size"],
            "query_tokens": rows["isl"],
            "kv_tokens": rows["step"] + rows["isl"],
            "query_heads": rows["num_heads"],
            "kv_heads": rows["num_key_value_heads"],
            "head_dim": 128,
        }
    )
    curve = getattr(truth().kernels, kernel)["bf16"]
    return rows.assign(
        head_dim=128,
        window_size=0,
        attn_dtype="bfloat16",
        kv_cache_dtype="bfloat16",
        kernel_source="flash",
        latency=1e3 * attention_s(curve, sizes),
    )


def experts() -> pd.DataFrame:
    """Times of modules of three shapes under balanced routing."""
    shapes = ((2048, 512, 8, 256), (4096, 1024, 8, 256), (2048, 768, 8, 128))
    tokens = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16384)
    rows = pd.DataFrame(
        [(t, *shape) for shape in shapes for t in tokens],
        columns=["num_tokens", "hidden_size", "inter_size", "topk", "num_experts"],
    )
    active = np.minimum(rows["num_experts"], rows["topk"] * rows["num_tokens"])
    times = (
        truth()
        .kernels.moe["bf16"]
        .time(
            rows["num_tokens"].to_numpy(float),
            np.asarray(active, dtype=np.float64),
            hidden=rows["hidden_size"].to_numpy(float),
            expert_ffn=rows["inter_size"].to_numpy(float),
            top_k=rows["topk"].to_numpy(float),
            experts=rows["num_experts"].to_numpy(float),
        )
    )
    return rows.assign(
        moe_dtype="bfloat16",
        kernel_source="fused",
        moe_tp_size=1,
        moe_ep_size=1,
        distribution="balanced",
        latency=1e3 * times.seconds,
    )


def quantisations() -> pd.DataFrame:
    """Times of streams of three bytes an element."""
    rows = grid(m=(1, 2, 4, 16, 64, 4096, 8192, 16384, 32768), k=(256, 640, 1152, 7168, 12288))
    moved = 3.0 * rows["m"].to_numpy(float) * rows["k"].to_numpy(float)
    seconds = truth().kernels.elementwise.time(moved).seconds
    return rows.assign(quant_dtype="fp8", kernel_source="scale", latency=1e3 * seconds)


def all_reduces() -> pd.DataFrame:
    """Times of messages of two and four GPUs, in elements of two bytes."""
    rows = grid(num_gpus=(2, 4), message_size=[2**power for power in range(7, 28, 2)])
    table = truth().kernels.all_reduce
    assert table is not None
    seconds = [
        float(table.by_ranks[int(ranks)].lookup(np.array([2.0 * size]))[0])
        for ranks, size in zip(rows["num_gpus"], rows["message_size"], strict=True)
    ]
    return rows.assign(
        allreduce_dtype="bfloat16",
        kernel_source="graph",
        backend="graph",
        latency=1e3 * np.array(seconds),
    )


def put_vidur(folder: Path, model: str = "llama-2-70b", **changes: Any) -> Path:
    """Write Vidur's two tables of a model; `mlp__COLUMN` and `attention__COLUMN` change columns."""
    place = folder / "h100" / model
    place.mkdir(parents=True)
    for name, rows in (("mlp", vidur_layers()), ("attention", vidur_attention())):
        own = {
            key.removeprefix(f"{name}__"): value
            for key, value in changes.items()
            if key.startswith(f"{name}__")
        }
        rows.assign(**own).to_csv(place / f"{name}.csv", index=False)
    return folder / "h100"


HIDDEN, FFN, HEADS, KV_HEADS = 8192, 28672, 64, 8
VIDUR_SHAPES = {
    1: {
        "attn_pre_proj": (10240, 8192),
        "attn_post_proj": (8192, 8192),
        "mlp_up_proj": (57344, 8192),
        "mlp_down_proj": (8192, 28672),
    },
    4: {
        "attn_pre_proj": (2560, 8192),
        "attn_post_proj": (8192, 2048),
        "mlp_up_proj": (14336, 8192),
        "mlp_down_proj": (8192, 7168),
    },
}
"""(outputs, inputs) of Llama-2-70B's products on one of one or four GPUs, counted by hand."""
VIDUR_ROW_BYTES = {
    1: {
        "input_layernorm": 49152,
        "post_attention_layernorm": 49152,
        "attn_rope": 36864,
        "mlp_act": 172032,
    },
    4: {
        "input_layernorm": 49152,
        "post_attention_layernorm": 49152,
        "attn_rope": 9216,
        "mlp_act": 43008,
    },
}
"""Bytes of a token's row in half precision: 3 x 8192 elements of a norm, 2 x 72 x 128 of rotary,
3 x 28672 of SwiGLU, the latter two divided."""
VIDUR_TOKENS = (1, 4, 8, 16, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)


def vidur_layers() -> pd.DataFrame:
    """`mlp.csv`: every operation of a layer of Llama-2-70B on one or four GPUs."""
    gemm, row = truth().kernels.gemm["bf16"], truth().kernels.elementwise
    made = []
    for gpus, tokens in itertools.product(VIDUR_SHAPES, VIDUR_TOKENS):
        m = np.array([float(tokens)])
        times = {
            name: gemm.time(m, np.array([float(n)]), np.array([float(k)])).seconds[0]
            for name, (n, k) in VIDUR_SHAPES[gpus].items()
        }
        for name, row_bytes in VIDUR_ROW_BYTES[gpus].items():
            times[name] = row.time(m * row_bytes, row_bytes=float(row_bytes)).seconds[0]
        times["add"] = row.time(m * 3.0 * 2.0 * HIDDEN).seconds[0]
        made.append(
            {f"time_stats.{name}.median": 1e3 * value for name, value in times.items()}
            | {"num_tokens": tokens, "num_tensor_parallel_workers": gpus}
        )
    return pd.DataFrame(made).assign(
        n_head=HEADS, n_kv_head=KV_HEADS, n_embd=HIDDEN, n_expanded_embd=FFN, use_gated_mlp=True
    )


def vidur_attention() -> pd.DataFrame:
    """`attention.csv`: prompts, chunks with a prefix, and single queries."""
    whole = grid(prefill_chunk_size=(64, 128, 256, 512, 1024, 2048, 4096), batch_size=(1,))
    chunks = whole.assign(kv_cache_size=1024, is_prefill=True)
    whole = whole.assign(kv_cache_size=0, is_prefill=True)
    decode = grid(batch_size=(1, 2, 4, 8, 16, 32, 64, 128), kv_cache_size=(63, 1023, 4095, 16383))
    decode = decode.assign(prefill_chunk_size=0, is_prefill=False)
    rows = pd.concat([whole, chunks, decode], ignore_index=True)
    both = [rows.assign(num_tensor_parallel_workers=gpus) for gpus in (1, 2, 4)]
    rows = pd.concat(both, ignore_index=True)
    kv_tokens = np.where(rows["is_prefill"], rows["prefill_chunk_size"], rows["kv_cache_size"] + 1)
    sizes = pd.DataFrame(
        {
            "sequences": rows["batch_size"],
            "query_tokens": np.where(rows["is_prefill"], rows["prefill_chunk_size"], 1),
            "kv_tokens": kv_tokens,
            "query_heads": HEADS // rows["num_tensor_parallel_workers"],
            "kv_heads": KV_HEADS // rows["num_tensor_parallel_workers"],
            "head_dim": 128,
        }
    )
    kernels = truth().kernels
    prefill = 1e3 * attention_s(kernels.attention_prefill["bf16"], sizes)
    extend = 1e3 * attention_s(kernels.attention_extend["bf16"], sizes)
    return rows.assign(
        n_q_head=HEADS,
        n_kv_head=KV_HEADS,
        n_embd=HIDDEN,
        **{
            "time_stats.attn_prefill.median": np.where(rows["is_prefill"], prefill, np.nan),
            "time_stats.attn_decode.median": np.where(rows["is_prefill"], np.nan, extend),
        },
    )
