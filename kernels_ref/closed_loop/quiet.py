"""Whether the machine is as fast as it was: visits wait while something else slows it down."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import torch

from kernels_ref.closed_loop.device import now_s

T = TypeVar("T")
PROBE: Final = (64, 384)
"""Rows and width of a product that takes a fraction of a millisecond."""
LOOKS: Final = 3
SLOW: Final = 1.15
"""A core whose neighbour works was seen to take 1.3 to 1.5 times as long."""
MOST_DEFERRED: Final = 2
"""Times that each visit may wait for the others, on average: some machines are never quiet."""


@dataclass
class Quiet:
    """The fastest that a probe was so far."""

    device: torch.device
    fastest_s: float = float("inf")
    operands: tuple[torch.Tensor, torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        """Make what is multiplied."""
        rows, width = PROBE
        ones = torch.ones(width, width, device=self.device)
        self.operands = ones[:rows], ones

    def __call__(self) -> bool:
        """Whether a probe takes about as long as the fastest did; a GPU is always taken to be."""
        if self.device.type == "cuda":
            return True
        found = min(self._probe_s() for _ in range(LOOKS))
        self.fastest_s = min(found, self.fastest_s)
        return found <= SLOW * self.fastest_s

    def _probe_s(self) -> float:
        began = now_s(self.device)
        torch.mm(*self.operands)
        return now_s(self.device) - began


def when_quiet(visits: Iterable[T], is_quiet: Callable[[], bool]) -> Iterator[T]:
    """*visits*; those whose turn comes at a noisy time go last, until too many have."""
    waiting = deque(visits)
    deferrals = MOST_DEFERRED * len(waiting)
    while waiting:
        visit = waiting.popleft()
        if deferrals and waiting and not is_quiet():
            deferrals -= 1
            waiting.append(visit)
            continue
        yield visit
