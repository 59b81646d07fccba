"""Barrier batching: all rows finish their blocks, then all emit, and then rows join and leave.

A row whose block is done goes on being forwarded until the slowest is, as SGLang's synchronous mode
does.
"""

WAITS_FOR_BLOCKS = True
BEGINS_TOGETHER = False


def admits(live: int, max_batch: int) -> int:
    """Fill the batch up."""
    return max_batch - live


def leaves(finished: int, live: int) -> int:  # noqa: ARG001 (the interface)
    """All that are finished."""
    return finished
