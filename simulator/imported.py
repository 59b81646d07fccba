"""The files of a profile that was fitted to what others measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hwprofiles import HardwareProfile
from hwprofiles.fitting.document import document, write
from hwprofiles.importers.imported import Imported
from simulator.documents import DocumentError, Mistake
from simulator.measured import profile_summary

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Destination:
    """Where a profile goes, and its points beside it."""

    profile: Path

    @property
    def points(self) -> Path:
        """The Parquet file of the points."""
        return self.profile.with_suffix(".parquet")

    def check(self, *, is_forced: bool) -> None:
        """Raise DocumentError where the files cannot be written, or exist unless *is_forced*."""
        if self.profile.suffix not in SUFFIXES:
            what = f"the profile is YAML; name it so, as {self.profile.with_suffix('.yaml')}"
            raise DocumentError(str(self.profile), [Mistake("", what)])
        for path in (self.profile, self.points):
            if path.is_dir():
                raise DocumentError(str(path), [Mistake("", "is a folder; a file is needed")])
            if path.exists() and not is_forced:
                raise DocumentError(str(path), [Mistake("", "exists; --force writes over it")])

    def save(self, profile: HardwareProfile, imported: Imported, made_by: str) -> None:
        """Write both files, the profile last; raises DocumentError where that cannot be done."""
        text = document(profile, made_by, imported.capacities)
        try:
            self.profile.parent.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pandas(imported.points, preserve_index=False)
            draft = self.points.with_name(f".{self.points.name}.draft")
            try:
                pq.write_table(table, draft, compression="zstd")
                draft.replace(self.points)
            finally:
                draft.unlink(missing_ok=True)
            write(self.profile, text)
        except OSError as error:
            what = f"cannot be written: {error.strerror or error}"
            raise DocumentError(str(self.profile), [Mistake("", what)]) from error


def import_summary(
    profile: HardwareProfile, imported: Imported, destination: Destination
) -> dict[str, Any]:
    """What was imported, as plain values: files, residuals, points of each curve, rows left out."""
    summary = profile_summary(profile, {}, destination.profile, destination.points)
    counts = imported.points.groupby(["kernel", "precision"]).size()
    totals = imported.points.groupby("kernel").size()
    for curve in summary["kernels"]:
        key = (curve["kernel"], curve["precision"])
        curve["all_points"] = int(counts[key] if curve["precision"] else totals[curve["kernel"]])
    return summary | {"name": profile.name, "left_out_rows": dict(imported.left_out)}
