"""How a capture records each kind of decoder: one module each, named as its kind of trace.

What a module has is `kernels_ref.capture.plan.Recording`.
"""

import importlib
from types import ModuleType
from typing import Any

TableRows = dict[str, list[dict[str, Any]]]
"""Rows by table."""


def module_of(kind: str) -> ModuleType:
    """The module of the kind of trace called so."""
    return importlib.import_module(f"{__name__}.{kind}")
