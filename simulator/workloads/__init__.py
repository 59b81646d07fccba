"""Workloads, one module each: when requests arrive and how long they are.

A module `some_name.py` is the workload kind `some-name`. It has a frozen dataclass `Parameters`
and `drive(environment, parameters, seed, submit)`, which starts SimPy processes that call
`submit(request)`; where `is_closed`, what it returns happens when the request is finished. A kind
that reads files has `prepared(parameters)` too: the same with what the files say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from simulator.folder_modules import module_in, names_in

if TYPE_CHECKING:  # names() must stay quick
    from collections.abc import Callable

    import simpy

    from simulator.request import Request

    Submit = Callable[[Request], Any]


class Workload(Protocol):
    """The interface of a workload module."""

    Parameters: type[Any]

    def drive(
        self,
        environment: simpy.Environment,
        parameters: Any,  # noqa: ANN401 (each kind has its own)
        seed: int,
        submit: Submit,
    ) -> None:
        """Start the processes that submit requests."""


def names() -> list[str]:
    """Every workload kind in the folder."""
    return names_in(__path__)


def workload(kind: str) -> Workload:
    """The workload module *kind*; raises KeyError for one that is not in the folder."""
    return cast("Workload", module_in(__name__, __path__, kind))
