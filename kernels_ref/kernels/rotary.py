"""Rotary position embedding of query and key heads, with their normalisation where there is one.

The fused projection leaves query and key heads side by side, so one kernel turns both. Dimension i
of the first half of a head pairs with dimension i of the second half (the layout of Llama, Qwen and
LLaDA2 checkpoints).
"""

import cmath

import torch

from kernels_ref.kernels.fused import fused
from kernels_ref.kernels.rms_norm import naive_rms_norm, normalised
from kernels_ref.kernels.wide import wide


@fused
def rotary(
    heads: torch.Tensor,
    positions: torch.Tensor,
    norm_weight: torch.Tensor | None = None,
    *,
    theta: float = 10_000.0,
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """*heads* [rows, queries, heads, head_dim] turned by *positions* [rows, queries].

    Pair i turns by position x theta^(-2i / rotary_dim) (Su et al., 2021); dimensions beyond
    *rotary_dim*, all of the head when absent, stay. *norm_weight*, [head_dim] or [heads, head_dim],
    normalises each head first. Angles and turns are at least float32; the dtype of
    *heads* comes back.
    """
    turned = heads.shape[-1] if rotary_dim is None else rotary_dim
    given = heads if norm_weight is None else normalised(heads, norm_weight)
    first, second = wide(given[..., :turned]).chunk(2, dim=-1)
    exponents = torch.arange(0, turned, 2, device=heads.device, dtype=first.dtype) / turned
    angles = positions.to(first.dtype)[:, :, None, None] * theta**-exponents
    cosine, sine = angles.cos(), angles.sin()
    rotated = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat([*(part.to(heads.dtype) for part in rotated), given[..., turned:]], dim=-1)


def _turned(head: list[float], position: int, theta: float, rotary_dim: int) -> list[float]:
    """One head, its pairs taken as complex numbers and multiplied by e^(i angle)."""
    half = rotary_dim // 2
    out = list(head)
    for pair in range(half):
        angle = position * theta ** (-2 * pair / rotary_dim)
        turned = complex(head[pair], head[pair + half]) * cmath.exp(1j * angle)
        out[pair], out[pair + half] = turned.real, turned.imag
    return out


def naive_rotary(
    heads: torch.Tensor,
    positions: torch.Tensor,
    norm_weight: torch.Tensor | None = None,
    *,
    theta: float = 10_000.0,
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """`rotary` head by head in double precision; float64."""
    given = heads.double() if norm_weight is None else naive_rms_norm_heads(heads, norm_weight)
    turned = heads.shape[-1] if rotary_dim is None else rotary_dim
    out = torch.empty_like(given)
    for row, query, head in torch.cartesian_prod(*map(torch.arange, given.shape[:3])).tolist():
        position = int(positions[row, query])
        values = _turned(given[row, query, head].tolist(), position, theta, turned)
        out[row, query, head] = torch.tensor(values, dtype=torch.float64)
    return out


def naive_rms_norm_heads(heads: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each head of [..., heads, head_dim] normalised with its own row of *weight*; float64."""
    rows = weight.expand(heads.shape[-2:])
    each = [naive_rms_norm(heads[..., head, :], row) for head, row in enumerate(rows)]
    return torch.stack(each, dim=-2)
