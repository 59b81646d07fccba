"""SwiGLU between the two products of a feed-forward layer."""

import math

import torch
from torch.nn.functional import silu

from kernels_ref.kernels.fused import fused
from kernels_ref.kernels.wide import wide


@fused
def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) x up, [..., ffn], from the fused projection's output [..., 2 ffn].

    The gate is the first half. silu(z) = z / (1 + e^-z) (Shazeer, 2020), inside in at least
    float32.
    """
    gate, up = gate_up.chunk(2, dim=-1)
    return (silu(wide(gate)) * wide(up)).to(gate_up.dtype)


def naive_swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """`swiglu` number by number in double precision; float64."""
    ffn = gate_up.shape[-1] // 2
    rows = gate_up.double().reshape(-1, 2 * ffn).tolist()
    out = [
        [g / (1 + math.exp(-g)) * u for g, u in zip(r[:ffn], r[ffn:], strict=True)] for r in rows
    ]
    return torch.tensor(out, dtype=torch.float64).reshape(*gate_up.shape[:-1], ffn)
