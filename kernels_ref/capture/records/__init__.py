"""How a capture records each kind of decoder: one module each, named as its kind of trace.

A module has `request`, which begins to decode a prompt of a plan, `rows_of`, what the tables say of
a request that is decoded, and `described` and `warnings`, what the manifest says of a plan beyond
what every trace does.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from kernels_ref.capture.prompts import Prompt
from kernels_ref.decoding.batch import Row

if TYPE_CHECKING:
    from kernels_ref.capture.plan import Plan

TableRows = dict[str, list[dict[str, Any]]]
"""Rows by table."""


class Recording(Protocol):
    """The interface of a module of this folder."""

    def check(self, plan: "Plan") -> None:
        """Raise ValueError for what the model of *plan* rules out."""

    def request(self, plan: "Plan", problem: int) -> Row:
        """Nothing decoded of a prompt; raises ValueError for one that cannot be."""

    def rows_of(self, request: Any, prompt: Prompt, batch: int, row: int) -> TableRows:  # noqa: ANN401 (each kind has its own)
        """What the tables say of a *request*, the *row* of its *batch*."""

    def described(self, plan: "Plan") -> dict[str, Any]:
        """Fields of the manifest that other kinds do not have."""

    def warnings(self, plan: "Plan") -> list[str]:
        """In what the decoder asks of the checkpoint what it was not trained for."""


def recording(name: str) -> Recording:
    """The module of the kind called *name*."""
    return cast("Recording", importlib.import_module(f"{__name__}.{name}"))
