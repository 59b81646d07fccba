"""A ledger of what kernels really do, to hold the simulator's counts against.

Flop are what torch's counter sees. Bytes are the sizes of the tensors that a kernel is given to
read and hands back, each once.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, addmm_flop

Tensors: TypeAlias = "torch.Tensor | Iterable[Tensors]"
Result = TypeVar("Result", bound=Tensors)


def _in_place(*shapes: object, out_shape: object = None, **_: object) -> int:
    """The counter knows the sum of a matrix and a product only where it makes a new tensor."""
    return int(addmm_flop(*shapes, out_val=out_shape))


def counted_flop(kernel: Callable[[], object]) -> int:
    """Flop of *kernel* by torch's counter, which is shown attention as its two products."""
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _in_place})
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        kernel()
    return int(counter.get_total_flops())


def size_bytes(tensors: Tensors) -> int:
    """Bytes of all *tensors*; a view counts what it shows."""
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(size_bytes(each) for each in tensors)


@dataclass
class Ledger:
    """Flop and bytes by the name of the operation."""

    flop: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def enter(self, name: str, kernel: Callable[[], Result], reads: Tensors) -> Result:
        """Run *kernel*, count it, the bytes of *reads*, and those of what it hands back."""
        results: list[Result] = []
        self.flop[name] += counted_flop(lambda: results.append(kernel()))
        self.bytes[name] += size_bytes(reads) + size_bytes(results)
        return results[0]
