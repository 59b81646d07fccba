"""Least loaded: the replica with the fewest requests, the first of several."""

from collections.abc import Sequence

from simulator.request import Request

READS_LOADS = True


def choose(loads: Sequence[int], request: Request, turn: int) -> int:  # noqa: ARG001 (the interface)
    """The one with the fewest requests."""
    return min(range(len(loads)), key=loads.__getitem__)
