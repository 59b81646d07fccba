"""Sizes that lie outside what a curve was fitted on are named, others are not."""

from collections.abc import Callable
from typing import Any

import pytest

from hwprofiles import HardwareProfile


def outside_calls(profile: HardwareProfile) -> dict[str, tuple[Callable[[], list[str]], str]]:
    """One call with one size far outside for each curve, and the name it must mention."""
    kernels = profile.kernels
    reduce = kernels.all_reduce
    assert reduce is not None
    shape: dict[str, Any] = {"query_heads": 32, "kv_heads": 8, "kv_element_bytes": 2.0}
    width: dict[str, Any] = {"hidden": 2048, "expert_ffn": 512, "top_k": 8}
    return {
        "gemm": (lambda: kernels.gemm["bf16"].outside(16, 4096, 1_000_000), "k"),
        "attention": (
            lambda: kernels.attention_extend["bf16"].outside([1], [500], head_dim=64, **shape),
            "head_dim",
        ),
        "moe": (lambda: kernels.moe["bf16"].outside(16, 99, experts=9_999, **width), "experts"),
        "streaming": (lambda: kernels.elementwise.outside(1e12), "bytes_moved"),
        "all-reduce": (lambda: reduce.outside(8.0, 2), "message_bytes"),
    }


@pytest.mark.parametrize("kind", ["gemm", "attention", "moe", "streaming", "all-reduce"])
def test_sizes_outside_the_domain_are_named(profile: HardwareProfile, kind: str) -> None:
    """One sentence, about the one size that is outside."""
    call, name = outside_calls(profile)[kind]
    (sentence,) = call()
    assert sentence.startswith(f"{name} = ")


def test_sizes_inside_the_domain_are_not_mentioned(profile: HardwareProfile) -> None:
    """Usual sizes, and work that is not there, raise no warning."""
    kernels = profile.kernels
    shape: dict[str, Any] = {
        "query_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "kv_element_bytes": 2.0,
    }
    assert kernels.gemm["bf16"].outside([0, 1, 64], 4096, 4096) == []
    # The B200's tables are of at most 32 rows per KV head.
    most = 8 if profile.name == "b200-sxm" else 32
    assert kernels.attention_extend["bf16"].outside([0, 1, most], [900, 900, 900], **shape) == []
    assert kernels.all_reduce is not None
    assert kernels.all_reduce.outside(1.0, 1) == []
