"""Round robin: the replicas in turn."""

from collections.abc import Sequence

from simulator.request import Request

READS_LOADS = False


def choose(loads: Sequence[int], request: Request, turn: int) -> int:  # noqa: ARG001 (the interface)
    """The next one."""
    return turn % len(loads)
