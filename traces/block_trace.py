"""BlockTrace: a captured trace of blocks, read and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from traces.block_manifest import BlockManifest
from traces.block_rules import COUNTED, block_mistakes
from traces.block_tables import FORWARDS, SCHEMAS
from traces.captured_trace import CapturedTrace
from traces.reading import read_as
from traces.record_form import RecordForm


@dataclass(frozen=True, eq=False)
class BlockTrace(CapturedTrace):
    """A trace whose tables are those of `block_tables.SCHEMAS`."""

    manifest: BlockManifest
    blocks: pa.Table


FORM: Final = RecordForm(
    manifest=BlockManifest,
    trace=BlockTrace,
    schemas=SCHEMAS,
    counted=COUNTED,
    forwards=FORWARDS,
    mistakes=block_mistakes,
)


def read_block_trace(folder: Path) -> BlockTrace:
    """The trace of blocks in *folder*; raises TraceError with every mistake found in it."""
    return read_as(FORM, folder)
