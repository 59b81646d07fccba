"""CapturedTrace: what every captured trace has once it is read and checked."""

from dataclasses import dataclass

import pyarrow as pa

from traces.captured import CapturedManifest


@dataclass(frozen=True, eq=False)
class CapturedTrace:
    """What a trace says of itself, and its tables as the schemas of its kind have them.

    Rows are in the order of requests, and within one of their numbers; `traces.columns` has the
    functions that make arrays of columns. A kind adds the tables of its own.
    """

    manifest: CapturedManifest
    requests: pa.Table
    steps: pa.Table

    def table(self, name: str) -> pa.Table:
        """The table called *name*."""
        return {own: getattr(self, own) for own in self.manifest.TABLES}[name]
