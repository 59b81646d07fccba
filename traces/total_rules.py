"""The rules that totals keep: of forwards by request, of a batch and of the whole."""

import numpy as np
import pyarrow.compute as pc

import traces
from traces.captured import CapturedManifest
from traces.checked_table import CheckedTable, sums_by
from traces.record_form import M, Mistakes, Owners, RecordForm, T, Tables
from traces.trace_error import TraceMistake

SHARE_TOLERANCE = 1e-9


def total_mistakes(form: RecordForm[M, T], manifest: M, tables: Tables, owners: Owners) -> Mistakes:
    """Every total that differs; *owners* are the rows of requests that other rows belong to."""
    requests, steps = tables["requests"], tables["steps"]
    for name, kinds in form.forwards.items():
        counted = sums_by(owners["steps"], steps.among("kind", *kinds), len(requests))
        yield from requests.equal(name, counted, "is the number of such steps")
    summed = [name for name in form.counts if name in form.schemas["requests"].names]
    counts = {"requests": len(requests)} | {name: int(requests[name].sum()) for name in summed}
    for name, total in counts.items():
        given = getattr(manifest.counts, name)
        if given != total:
            yield _in_manifest(f"counts.{name}", f"is {total} by the tables, got {given}")
    yield from _of_batches(manifest, requests, tuple(form.forwards))
    yield from _accuracy(manifest, requests)


def _of_batches(
    manifest: CapturedManifest, requests: CheckedTable, forwards: tuple[str, ...]
) -> Mistakes:
    """A batch has at least the forwards of its slowest row, and no more than of all its rows."""
    batches, batch = np.unique(requests["batch"], return_inverse=True)
    for name, columns in (
        ("batch_forwards", forwards),
        ("batch_prefill_forwards", ("prefill_forwards",)),
    ):
        of_row = np.sum([requests[column] for column in columns], axis=0)
        slowest = np.zeros(len(batches), dtype=np.int64)
        np.maximum.at(slowest, batch, of_row)
        low, high, given = slowest.sum(), of_row.sum(), getattr(manifest.counts, name)
        if not low <= given <= high:
            rule = f"is {low} to {high}, of the slowest rows and of all, got {given}"
            yield _in_manifest(f"counts.{name}", rule)


def _accuracy(manifest: CapturedManifest, requests: CheckedTable) -> Mistakes:
    for name in ("correct", "valid"):
        given = None if manifest.accuracy is None else getattr(manifest.accuracy, name)
        counted = pc.mean(requests.table[name]).as_py()
        if (given is None) != (counted is None) or (
            given is not None and abs(given - counted) > SHARE_TOLERANCE
        ):
            yield _in_manifest(f"accuracy.{name}", f"is {counted} by the requests, got {given}")


def _in_manifest(place: str, rule: str) -> TraceMistake:
    return TraceMistake(traces.MANIFEST_FILE, place, rule)
