"""The kinds of records that a captured trace may hold: one module each, found by its name.

A module `things.py` is `records: things`. It has `FORM`, the RecordForm that reads and writes such
traces, and `summary(trace)`, their statistics as what JSON holds.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import traces
from traces.captured import CapturedManifest
from traces.captured_trace import CapturedTrace
from traces.record_form import RecordForm
from traces.trace_error import TraceError, TraceMistake


class Records(Protocol):
    """The interface of a module of this folder."""

    FORM: RecordForm[Any, Any]

    def summary(self, trace: Any) -> dict[str, Any]:  # noqa: ANN401 (each kind has its own)
        """The statistics of a trace of this kind."""


def names() -> list[str]:
    """Every kind in the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def records(name: str) -> Records:
    """The module of *name*, one of `names`."""
    return cast("Records", importlib.import_module(f"{__name__}.{name}"))


def form_of(folder: Path, fields: object) -> RecordForm[CapturedManifest, CapturedTrace]:
    """The form that the *fields* of a manifest name; raises TraceError for what names none."""
    given = fields.get("records") if isinstance(fields, Mapping) else None
    if given not in names():
        rule = f"is {' or '.join(names())}, got {given!r:.60}"
        raise TraceError(folder, [TraceMistake(traces.MANIFEST_FILE, "records", rule)])
    return records(str(given)).FORM
