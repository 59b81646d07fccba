"""Draining batching: a batch starts together, finished rows leave, and the rest goes on alone."""

WAITS_FOR_BLOCKS = False
BEGINS_TOGETHER = True


def admits(live: int, max_batch: int) -> int:
    """A whole batch, once the last one is gone."""
    return 0 if live else max_batch


def leaves(finished: int, live: int) -> int:  # noqa: ARG001 (the interface)
    """All that are finished."""
    return finished
