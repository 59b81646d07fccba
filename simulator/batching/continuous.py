"""Continuous batching: requests join as soon as there is room and leave when they finish."""

WAITS_FOR_BLOCKS = False
BEGINS_TOGETHER = False


def admits(live: int, max_batch: int) -> int:
    """Fill the batch up."""
    return max_batch - live


def leaves(finished: int, live: int) -> int:  # noqa: ARG001 (the interface)
    """All that are finished."""
    return finished
