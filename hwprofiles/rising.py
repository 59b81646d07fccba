"""More work never takes less time: every curve of a profile is asked along each of its sizes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hwprofiles.quantities import FloatArray

# Rounding in logarithms and powers is not a fall.
TOLERANCE = 1e-9
MOST_NAMED = 5

SHAPE = {"query_heads": 32.0, "kv_heads": 8.0, "head_dim": 128, "kv_element_bytes": 2.0}
EXPERTS = {"hidden": 2048.0, "expert_ffn": 512.0, "top_k": 8.0, "experts": 256.0}
SIZES = np.unique(np.round(np.geomspace(1, 65536, 60)))

# For each kernel the sizes that stay, and those that rise one at a time.
SWEEPS: Mapping[str, tuple[dict[str, Any], dict[str, FloatArray]]] = {
    "gemm": (
        {"m": 16.0, "n": 4096.0, "k": 4096.0},
        {"m": SIZES, "n": 64.0 * SIZES, "k": SIZES},
    ),
    "lm_head": ({"m": 16.0, "n": 151936.0, "k": 4096.0}, {"m": SIZES}),
    "attention_extend": (
        SHAPE | {"query_tokens": 4.0, "kv_tokens": 70000.0},
        {"query_tokens": SIZES[SIZES <= 512], "kv_tokens": SIZES},  # noqa: PLR2004 (a few blocks)
    ),
    "attention_prefill": (
        SHAPE | {"query_tokens": 16.0, "kv_tokens": 70000.0},
        {"query_tokens": SIZES, "kv_tokens": SIZES},
    ),
    "moe": (
        EXPERTS | {"tokens": 64.0, "active_experts": 128.0},
        {"tokens": SIZES, "active_experts": np.arange(1.0, 257.0)},
    ),
    "elementwise": (
        {"bytes_moved": 1e6, "row_bytes": 0.0},
        {"bytes_moved": 64.0 * SIZES, "row_bytes": SIZES},
    ),
}


def falls(name: str, curve: Any) -> list[str]:  # noqa: ANN401 (curves differ in their inputs)
    """Where *curve*, of the kernel *name*, takes less time for more work; one sentence each."""
    fixed, sweeps = SWEEPS[name]
    return [
        sentence
        for size, values in sweeps.items()
        for sentence in _falls_along(curve, fixed, size, values)
    ][:MOST_NAMED]


def _falls_along(
    curve: Any,  # noqa: ANN401 (as above)
    fixed: dict[str, Any],
    size: str,
    values: FloatArray,
) -> Iterator[str]:
    per_sequence = size in {"query_tokens", "kv_tokens"}
    asked = fixed | {size: values[np.newaxis] if per_sequence else values}
    times = np.broadcast_to(curve.time(**asked).seconds, values.shape)
    for at in np.flatnonzero(np.diff(times) < -TOLERANCE * times[:-1]):
        before, after = (f"{times[i]:.4g} s at {size} {values[i]:g}" for i in (at, at + 1))
        yield f"{before}, but {after}"
