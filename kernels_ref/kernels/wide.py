"""The precision that a kernel computes in: at least float32, and float64 where it is given.

float64 is for oracles: there rounding decides nothing, so two ways to the same numbers agree.
"""

import torch


def wide(x: torch.Tensor) -> torch.Tensor:
    """*x* in float32, or in float64 if it is that already."""
    return x if x.dtype == torch.float64 else x.float()
