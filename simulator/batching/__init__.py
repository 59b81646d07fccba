"""Batching policies, one module each: who joins the batch and when finished requests leave.

A module has `admits(live, max_batch)`, how many waiting requests may join a batch of *live*
requests of which some may be finished, `leaves(finished, live)`, how many of the finished ones
leave now, `BEGINS_TOGETHER`, whether nobody joins a batch that has begun, and `WAITS_FOR_BLOCKS`,
whether rows that are done with a block wait until all are.
"""

import importlib
import pkgutil
from typing import Protocol, cast


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
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def batching(name: str) -> Batching:
    """The batching policy *name*; raises KeyError for one that is not in the folder."""
    if name not in names():
        raise KeyError(name)
    return cast("Batching", importlib.import_module(f"{__name__}.{name}"))
