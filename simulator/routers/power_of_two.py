"""Power of two choices: the less loaded of two replicas drawn at random (Mitzenmacher, 2001)."""

from collections.abc import Sequence
from typing import Final

from simulator.replay.keyed_draws import below
from simulator.request import Request

READS_LOADS = True
STREAM: Final = 0x0907
"""Keeps its draws apart from others of the same request."""


def choose(loads: Sequence[int], request: Request, turn: int) -> int:  # noqa: ARG001 (the interface)
    """The less loaded of two different replicas; draws are keyed by the request alone."""
    if len(loads) == 1:
        return 0
    first = int(below(len(loads), *request.key, STREAM, 0))
    second = int(below(len(loads) - 1, *request.key, STREAM, 1))
    second += second >= first
    return second if loads[second] < loads[first] else first
