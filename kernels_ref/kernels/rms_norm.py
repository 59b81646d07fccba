"""Root-mean-square normalisation, alone and fused with the residual add before it."""

import math

import torch

from kernels_ref.kernels.fused import fused
from kernels_ref.kernels.wide import wide

EPSILON = 1e-6


def normalised(x: torch.Tensor, weight: torch.Tensor, *, epsilon: float = EPSILON) -> torch.Tensor:
    """The formula on at least float32, for other fused kernels to contain; see `rms_norm`."""
    precise = wide(x)
    scale = torch.rsqrt(precise.square().mean(dim=-1, keepdim=True) + epsilon)
    return (precise * scale * wide(weight)).to(x.dtype)


@fused
def rms_norm(x: torch.Tensor, weight: torch.Tensor, *, epsilon: float = EPSILON) -> torch.Tensor:
    """Rows of *x* over their root mean square, times *weight*; shape and dtype of *x*.

    y = weight x / sqrt(mean(x^2) + epsilon) over the last axis; *x* is [..., width], *weight*
    [width] or what broadcasts to *x*. Zhang and Sennrich, 2019.
    """
    return normalised(x, weight, epsilon=epsilon)


@fused
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, epsilon: float = EPSILON
) -> tuple[torch.Tensor, torch.Tensor]:
    """(normalised sum, sum) of *x* and *residual*, both [..., width]: two reads, two writes."""
    total = x + residual
    return normalised(total, weight, epsilon=epsilon), total


def naive_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, epsilon: float = EPSILON
) -> torch.Tensor:
    """`rms_norm` row by row in double precision; float64."""
    rows = x.double().reshape(-1, x.shape[-1])
    out = torch.empty_like(rows)
    for index, row in enumerate(rows):
        mean_square = sum(value * value for value in row.tolist()) / len(row)
        out[index] = row / math.sqrt(mean_square + epsilon) * weight.double()
    return out.reshape(x.shape)


def naive_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, epsilon: float = EPSILON
) -> tuple[torch.Tensor, torch.Tensor]:
    """`add_rms_norm` in two steps in double precision; float64."""
    total = x.double() + residual.double()
    return naive_rms_norm(total, weight, epsilon=epsilon), total
