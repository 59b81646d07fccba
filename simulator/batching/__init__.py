"""Batching policies, one module each: who joins the batch and when finished requests leave.

A module has `admits(live, max_batch)`, how many waiting requests may join a batch of *live*
requests of which some may be finished, `leaves(finished, live)`, how many of the finished ones
leave now, `BEGINS_TOGETHER`, whether nobody joins a batch that has begun, and `WAITS_FOR_BLOCKS`,
whether rows that are done with a block wait until all are.
"""

from typing import Protocol, cast

from simulator.folder_modules import module_in, names_in


class Batching(Protocol):
    """The interface of a batching module."""

    BEGINS_TOGETHER: bool
    WAITS_FOR_BLOCKS: bool

    def admits(self, live: int, max_batch: int) -> int:
        """Requests that may join now, before asking whether their cache fits."""

    def leaves(self, finished: int, live: int) -> int:
        """How many of the *finished* among the *live* requests leave the batch now."""


def names() -> list[str]:
    """Every batching policy in the folder."""
    return names_in(__path__)


def batching(name: str) -> Batching:
    """The batching policy *name*; raises KeyError for one that is not in the folder."""
    return cast("Batching", module_in(__name__, __path__, name))
