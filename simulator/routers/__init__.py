"""Routers, one module each: which replica a request goes to when it arrives.

A module `some_name.py` is the router `some-name`. It has `READS_LOADS`, whether it asks how busy
the replicas are, and `choose(loads, request, turn)`: *loads* are the requests in each replica,
waiting or running, and *turn* counts the requests that came before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from simulator.folder_modules import module_in, names_in

if TYPE_CHECKING:  # names() must stay quick
    from collections.abc import Sequence

    from simulator.request import Request


class Router(Protocol):
    """The interface of a router module."""

    READS_LOADS: bool

    def choose(self, loads: Sequence[int], request: Request, turn: int) -> int:
        """Index of the replica that takes *request*."""


def names() -> list[str]:
    """Every router in the folder."""
    return names_in(__path__)


def router(name: str) -> Router:
    """The router *name*; raises KeyError for one that is not in the folder."""
    return cast("Router", module_in(__name__, __path__, name))
