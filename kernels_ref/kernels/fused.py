"""An elementwise function as one kernel: compiled where its tensors are on a GPU, as written else.

Engines compile or hand-write these kernels; run operation by operation they would read and write
every intermediate result. The first call on a GPU compiles, so it must not fall into the capture of
a CUDA graph.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def fused(function: Callable[P, T]) -> Callable[P, T]:
    """*function*, compiled on its first call with a positional argument on a GPU."""

    @cache
    def compiled() -> Callable[P, T]:
        return torch.compile(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in args)
        return (compiled() if on_gpu else function)(*args, **kwargs)

    return call
