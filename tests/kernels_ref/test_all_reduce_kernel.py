"""Two processes over loopback against the sum of a list."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from kernels_ref.kernels.all_reduce import all_reduce, naive_all_reduce

RANKS = 2


def share(rank: int) -> torch.Tensor:
    """What a rank brings."""
    return torch.arange(6, dtype=torch.float32).reshape(2, 3) * (1 + 9 * rank)


def reduce_one(rank: int, folder: str) -> None:
    """One rank: joins, reduces, writes what it holds."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS
    )
    torch.save(all_reduce(share(rank)), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_every_rank_holds_the_sum(tmp_path: Path) -> None:
    """Both ranks end with the same tensor, the sum of theirs."""
    spawn(reduce_one, (str(tmp_path),), nprocs=RANKS)
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]
    expected = naive_all_reduce([share(rank) for rank in range(RANKS)])

    assert expected.tolist() == [[0, 11, 22], [33, 44, 55]]
    assert torch.equal(found[0].double(), expected)
    assert torch.equal(found[1], found[0])


def test_no_group_is_refused() -> None:
    """Without a process group there is nothing to sum over."""
    with pytest.raises(ValueError, match="init_process_group"):
        all_reduce(torch.zeros(2))
