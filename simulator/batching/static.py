"""Static batching: a batch starts together, and its rows ride along until all are finished."""

WAITS_FOR_BLOCKS = False
BEGINS_TOGETHER = True


def admits(live: int, max_batch: int) -> int:
    """A whole batch, once the last one is gone."""
    return 0 if live else max_batch


def leaves(finished: int, live: int) -> int:
    """Nobody until everybody is finished."""
    return finished if finished == live else 0
