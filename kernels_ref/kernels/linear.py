"""Matrix products with weights in bf16, fp32, or fp8 (e4m3) with scales.

In fp8 the activation is quantised on the way in, by the same rule as the weight: one scale for the
tensor, or one per row (token, output). Products accumulate in float32 and come back in the
activation's dtype.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

from kernels_ref.kernels.fused import fused

Scaling = Literal["tensor", "row"]

FP8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FP8).max
SMALLEST_SCALE = 1e-12
"""Of an all-zero row, which any scale quantises exactly."""
FP8_CAPABILITY = (8, 9)
"""Ada; Hopper is 9.0."""
FP8_GRANULE = 16
"""In fp8 the library multiplies sizes that are multiples of this."""


@dataclass(frozen=True)
class Quantised:
    """An fp8 matrix [rows, k] and its scale, float32 [] or [rows, 1]: matrix = values x scale."""

    values: torch.Tensor
    scale: torch.Tensor

    @property
    def scaling(self) -> Scaling:
        """Whether the scale is the tensor's or each row's."""
        return "row" if self.scale.ndim else "tensor"


def fp8_available(device: torch.device) -> bool:
    """Whether the device multiplies in fp8: GPUs from Ada on; the CPU does, slowly."""
    if device.type != "cuda":
        return device.type == "cpu"
    return torch.cuda.get_device_capability(device) >= FP8_CAPABILITY


@fused
def _quantised(matrix: torch.Tensor, scaling: Scaling) -> tuple[torch.Tensor, torch.Tensor]:
    wide = matrix.float()
    largest = wide.abs().amax(dim=1, keepdim=True) if scaling == "row" else wide.abs().amax()
    scale = (largest / LARGEST).clamp(min=SMALLEST_SCALE)
    return (wide / scale).clamp(-LARGEST, LARGEST).to(FP8), scale


def quantise(matrix: torch.Tensor, scaling: Scaling) -> Quantised:
    """*matrix* [rows, k] in fp8, its largest magnitude on the largest number of e4m3.

    The largest of the tensor, or of each row. One kernel on a GPU.
    """
    return Quantised(*_quantised(matrix, scaling))


def linear(x: torch.Tensor, weight: torch.Tensor | Quantised) -> torch.Tensor:
    """Product x W^T in the dtype of x: *x* [..., in], *weight* [out, in], the product [..., out].

    A quantised weight makes it an fp8 product, *x* quantised inside. Raises ValueError where the
    sizes disagree, and in fp8 where x is not bf16 or a size is not a multiple of 16.
    """
    outputs, inputs = (weight.values if isinstance(weight, Quantised) else weight).shape
    if x.shape[-1] != inputs:
        rule = f"x has {x.shape[-1]} inputs, the weight {inputs}"
        raise ValueError(rule)
    if not isinstance(weight, Quantised):
        return functional.linear(x, weight)
    flat = quantise(x.reshape(-1, inputs), weight.scaling)
    return multiply(flat, weight, x.dtype).reshape(*x.shape[:-1], outputs)


def multiply(x: Quantised, weight: Quantised, dtype: torch.dtype) -> torch.Tensor:
    """The fp8 product alone, [tokens, out] in *dtype*, which is bf16; errors as `linear`."""
    if dtype != torch.bfloat16:
        rule = f"an fp8 product comes back in bfloat16, not {dtype}"
        raise ValueError(rule)
    if x.scaling != weight.scaling:
        rule = f"x is scaled by {x.scaling}, the weight by {weight.scaling}"
        raise ValueError(rule)
    odd = [size for size in weight.values.shape if size % FP8_GRANULE]
    if odd:
        rule = f"an fp8 weight has sizes that are multiples of {FP8_GRANULE}, got {odd[0]}"
        raise ValueError(rule)
    return torch._scaled_mm(  # noqa: SLF001 (the only fp8 product that every torch since 2.5 has)
        x.values,
        weight.values.t(),
        scale_a=x.scale,
        scale_b=weight.scale.t(),
        out_dtype=dtype,
        # Partial sums in the tensor cores' own precision, as engines run it.
        use_fast_accum=True,
    )


def naive_quantise(matrix: torch.Tensor, scaling: Scaling) -> torch.Tensor:
    """The matrix that `quantise` stands for, rounded to the nearest e4m3 one by one; float64."""
    numbers = torch.arange(256, dtype=torch.uint8).view(FP8).double()
    numbers = numbers[numbers.isfinite()]
    wide = matrix.double()
    out = torch.empty_like(wide)
    for row, values in enumerate(wide):
        largest = (values if scaling == "row" else wide).abs().max()
        scale = max(float(largest) / LARGEST, SMALLEST_SCALE)
        for column, value in enumerate((values / scale).tolist()):
            out[row, column] = numbers[(numbers - value).abs().argmin()] * scale
    return out


def naive_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`linear` output by output, for x [tokens, in]; float64."""
    out = torch.empty(len(x), len(weight), dtype=torch.float64)
    for token, values in enumerate(x.double()):
        for output, weights in enumerate(weight.double()):
            out[token, output] = (values * weights).sum()
    return out
