"""The capture itself: batch by batch, with a readable trace on disk after each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.records import TableRows
from kernels_ref.decoding.batch import BatchForwards, decode_batch
from kernels_ref.decoding.sampling import BrokenModelError
from traces import MANIFEST_FILE
from traces.captured import CapturedManifest
from traces.reading import read_trace
from traces.record_form import RecordForm
from traces.records import records
from traces.writing import write_trace

SNAPSHOT_EVERY_S = 2.0
JUDGED = ("correct", "valid")


class CaptureError(ValueError):
    """A capture that cannot begin or go on, and why."""


class InterruptedCaptureError(CaptureError):
    """A capture that stopped early; what it finished is a trace, marked partial."""


@dataclass(frozen=True)
class Captured:
    """Whole batches: their rows by table, and the forwards over the batch that they took."""

    tables: Mapping[str, pa.Table]
    prefill_forwards: int = 0
    decode_forwards: int = 0

    @property
    def problems(self) -> int:
        """Prompts that are decoded."""
        return int(self.tables["requests"].num_rows)

    def with_batch(self, rows: Sequence[TableRows], forwards: BatchForwards) -> "Captured":
        """With another batch behind."""
        tables = {}
        for name, table in self.tables.items():
            more = [pa.Table.from_pylist(part[name], schema=table.schema) for part in rows]
            tables[name] = pa.concat_tables([table, *more]).combine_chunks()
        return Captured(
            tables,
            self.prefill_forwards + forwards.prefill,
            self.decode_forwards + forwards.decode,
        )


def _form(plan: Plan) -> RecordForm[Any, Any]:
    """The kind of trace that *plan* leaves."""
    return records(plan.policy.RECORDS).FORM


def _nothing(plan: Plan) -> Captured:
    schemas = _form(plan).schemas
    return Captured({name: schema.empty_table() for name, schema in schemas.items()})


def _next_batch(plan: Plan, done: Captured) -> Captured:
    """*done* and the next batch, decoded."""
    problems = range(done.problems, min(done.problems + plan.batch, len(plan.prompts)))
    requests = [plan.request(problem) for problem in problems]
    forwards = decode_batch(
        plan.source.model, requests, plan.policy.decode(requests, plan.parameters)
    )
    batch = problems.start // plan.batch
    rows = [
        plan.recording.rows_of(request, plan.prompts[problem], batch, row)
        for row, (problem, request) in enumerate(zip(problems, requests, strict=True))
    ]
    return done.with_batch(rows, forwards)


def _restored(plan: Plan, folder: Path) -> Captured:
    """The partial trace in *folder*; CaptureError where it is of another plan or whole."""
    found = read_trace(folder)
    if not found.manifest.partial:
        what = f"{folder}: already whole, there is nothing to resume"
        raise CaptureError(what)
    differing = _differing(found.manifest, plan.described())
    if differing:
        what = f"{folder}: captured with another {', '.join(differing)}"
        raise CaptureError(what)
    counts = found.manifest.counts
    prefill = counts.batch_prefill_forwards
    tables = {name: found.table(name) for name in found.manifest.TABLES}
    return Captured(tables, prefill, counts.batch_forwards - prefill)


def _write(plan: Plan, folder: Path, done: Captured) -> CapturedManifest:
    """Replace the trace on disk by *done*."""
    requests = done.tables["requests"].to_pydict()
    counted = [name for name in _form(plan).counts if name in requests]
    fields = {
        **plan.described(),
        "partial": done.problems < len(plan.prompts),
        "counts": {
            "requests": done.problems,
            **{name: sum(requests[name]) for name in counted},
            "batch_forwards": done.prefill_forwards + done.decode_forwards,
            "batch_prefill_forwards": done.prefill_forwards,
        },
        "accuracy": {name: _share(requests[name]) for name in JUDGED},
    }
    return write_trace(folder, fields, done.tables)


def capture(
    plan: Plan,
    folder: Path,
    *,
    resume: bool = False,
    limit_s: float | None = None,
    report: Callable[[int], object] = int,
) -> CapturedManifest:
    """Decode all prompts of *plan* and leave the trace in *folder*.

    *report* hears how many prompts are done after each batch. Raises CaptureError where the folder
    exists (unless it is a partial trace to *resume*), InterruptedCaptureError where *limit_s* or
    the user stopped it: then a partial trace is there, if a batch was finished.
    """
    plan.check()
    done = _begun(plan, folder, resume=resume)
    began = written = monotonic()
    try:
        while done.problems < len(plan.prompts):
            report(done.problems)
            now = monotonic()
            if limit_s is not None and now - began > limit_s:
                raise _stopped(plan, folder, done, "reached its limit")
            if done.problems and now - written > SNAPSHOT_EVERY_S:
                _write(plan, folder, done)
                written = now
            done = _next_batch(plan, done)
        report(done.problems)
    except BrokenModelError as broken:
        raise _stopped(plan, folder, done, f"{plan.source.name}: {broken}:") from broken
    except KeyboardInterrupt as stop:
        raise _stopped(plan, folder, done, "interrupted") from stop
    return _write(plan, folder, done)


def _begun(plan: Plan, folder: Path, *, resume: bool) -> Captured:
    """What there is to go on from; the folder is made at once, so that nobody else takes it."""
    if resume and (folder / MANIFEST_FILE).exists():
        return _restored(plan, folder)
    try:
        folder.mkdir(parents=True, exist_ok=resume)
    except FileExistsError as error:
        what = f"{folder}: exists; name a new folder, or give --resume to go on with a partial one"
        raise CaptureError(what) from error
    if any(folder.iterdir()):
        what = f"{folder}: holds other things than a trace"
        raise CaptureError(what)
    return _nothing(plan)


def _stopped(plan: Plan, folder: Path, done: Captured, why: str) -> InterruptedCaptureError:
    """Write what there is, and say so."""
    if not done.problems:
        folder.rmdir()
        return InterruptedCaptureError(f"{why} before a batch was finished; nothing is written")
    _write(plan, folder, done)
    what = (
        f"{why} after {done.problems} of {len(plan.prompts)} problems; {folder} is a "
        "partial trace of them, and --resume goes on from it"
    )
    return InterruptedCaptureError(what)


def _share(verdicts: list[bool | None]) -> float | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    return sum(known) / len(known) if known else None


def _differing(found: CapturedManifest, asked: Mapping[str, Any]) -> list[str]:
    """Fields that decide what is decoded, and are not what *asked* says."""
    fields = (
        "policy", "parameters", "block_tokens", "task", "seed", "batch", "dtype",
        "output_limit_tokens", "requests_asked",
    )  # fmt: skip
    if found.records != asked["records"]:
        return ["policy"]
    different = [name for name in fields if getattr(found, name) != asked[name]]
    same_weights = found.checkpoint.sha256 == asked["checkpoint"]["sha256"]
    return different if same_weights else [*different, "checkpoint"]
