"""IterationTrace: a captured trace of iterations, read and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from traces.captured_trace import CapturedTrace
from traces.iteration_manifest import IterationManifest
from traces.iteration_rules import COUNTED, iteration_mistakes
from traces.iteration_tables import FORWARDS, SCHEMAS
from traces.reading import read_as
from traces.record_form import RecordForm


@dataclass(frozen=True, eq=False)
class IterationTrace(CapturedTrace):
    """A trace whose tables are those of `iteration_tables.SCHEMAS`."""

    manifest: IterationManifest
    iterations: pa.Table


FORM: Final = RecordForm(
    manifest=IterationManifest,
    trace=IterationTrace,
    schemas=SCHEMAS,
    counted=COUNTED,
    forwards=FORWARDS,
    mistakes=iteration_mistakes,
)


def read_iteration_trace(folder: Path) -> IterationTrace:
    """The trace of iterations in *folder*; raises TraceError with every mistake found in it."""
    return read_as(FORM, folder)
