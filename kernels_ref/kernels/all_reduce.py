"""Sum over the GPUs of a tensor-parallel group."""

from collections.abc import Sequence

import torch
import torch.distributed as dist


def all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """*tensor* summed over the default process group, in place on every rank.

    Raises ValueError where no process group was initialised.
    """
    if not dist.is_initialized():
        rule = "all_reduce needs torch.distributed.init_process_group first"
        raise ValueError(rule)
    dist.all_reduce(tensor)
    return tensor


def naive_all_reduce(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """What every rank holds afterwards, *tensors* being one per rank; float64."""
    total = torch.zeros(tensors[0].shape, dtype=torch.float64)
    for tensor in tensors:
        total += tensor.double()
    return total
