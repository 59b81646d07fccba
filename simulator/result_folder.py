"""A result's folder on disk: its JSON, the scenario, and the records as CSV."""

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import numpy as np
import yaml

from simulator.columns import Columns
from simulator.documents import DocumentError, Mistake
from simulator.result import RunResult

TERMINATED: Final = 128 + signal.SIGTERM


def check_new(folder: Path) -> None:
    """Raise DocumentError when there is something at *folder* already, or can never be."""
    try:
        what = "exists already; choose a new folder" if folder.exists() else ""
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
    if what:
        raise DocumentError(str(folder), [Mistake("", what)])


def write(result: RunResult, folder: Path) -> None:
    """Write the result into a new *folder*: JSON, scenario.yaml, and a CSV file of each record.

    Raises DocumentError when something is there already or it cannot be written.
    """
    with whole_folder(folder) as draft:
        _write_files(result, draft)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A draft that becomes the new *folder* when all is written into it.

    The folder appears whole or not at all, whatever happens in between; what a killed process
    leaves is a hidden `.blockcast-` folder beside it. Raises DocumentError when something is there
    already or it cannot be written.
    """
    check_new(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            _terminable(),
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".blockcast-") as scratch,
        ):
            draft = Path(scratch) / "result"
            draft.mkdir()
            yield draft
            draft.rename(folder)
    except OSError as error:
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: OSError, kept: str = "") -> DocumentError:
    """What to raise when *folder* cannot be written; *kept* tells what is there."""
    # Arrow's own errors have a number, and a text of their own.
    told = os.strerror(error.errno) if error.errno else str(error)
    return DocumentError(str(folder), [Mistake("", f"cannot be written: {told}{kept}")])


def _write_files(result: RunResult, draft: Path) -> None:
    (draft / "result.json").write_text(result.to_json() + "\n", encoding="utf-8")
    scenario = yaml.safe_dump(result.summary["scenario"], sort_keys=False)
    (draft / "scenario.yaml").write_text(scenario, encoding="utf-8")
    records = result.simulated.records
    _write_rows(draft / "requests.csv", records.requests)
    if records.keep_steps:
        _write_rows(draft / "steps.csv", records.steps)
    if len(records.rejected):
        _write_rows(draft / "rejected.csv", records.rejected)


def _write_rows(path: Path, records: Columns[Any]) -> None:
    """One line a record, chunk by chunk."""
    import pyarrow as pa  # noqa: PLC0415 (slow, and only for this)
    from pyarrow import csv  # noqa: PLC0415

    schema = pa.schema(
        [
            (name, pa.string() if kind is np.object_ else pa.from_numpy_dtype(kind))
            for name, kind in records.types.items()
        ]
    )
    with csv.CSVWriter(path, schema) as writer:
        for chunk in records.chunks():
            columns = [chunk[name].astype(kind) for name, kind in records.types.items()]
            writer.write_batch(pa.record_batch([pa.array(c) for c in columns], schema=schema))


@contextmanager
def _terminable() -> Iterator[None]:
    """A request to terminate ends the process in order, so that drafts are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
