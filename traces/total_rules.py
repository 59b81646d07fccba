"""The rules that the totals of a block trace keep: of a request, of a batch and of the whole."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow.compute as pc

import traces
from traces.block_tables import IntArray, among
from traces.captured import CapturedManifest
from traces.checked_table import CheckedTable, sums_by
from traces.trace_error import TraceMistake

Mistakes = Iterator[TraceMistake]
FORWARDS = {
    "prefill_forwards": ("prefill",),
    "denoise_forwards": ("denoise", "fused-store"),
    "store_forwards": ("store",),
}
"""Columns of `requests`, and the kinds of forwards that each counts."""
SHARE_TOLERANCE = 1e-9


def total_mistakes(
    manifest: CapturedManifest,
    tables: Mapping[str, CheckedTable],
    owners: Mapping[str, IntArray],
) -> Mistakes:
    """Every total that differs; *owners* are the rows of requests that other rows belong to."""
    requests = tables["requests"]
    yield from _of_requests(tables, owners)
    counts = {"requests": len(requests), "output_tokens": int(requests["output_tokens"].sum())}
    counts |= {name: int(requests[name].sum()) for name in FORWARDS}
    for name, counted in counts.items():
        given = getattr(manifest.counts, name)
        if given != counted:
            yield _in_manifest(f"counts.{name}", f"is {counted} by the tables, got {given}")
    yield from _of_batches(manifest, requests)
    yield from _accuracy(manifest, requests)


def _of_requests(tables: Mapping[str, CheckedTable], owners: Mapping[str, IntArray]) -> Mistakes:
    requests, blocks, steps = tables["requests"], tables["blocks"], tables["steps"]
    for name, kinds in FORWARDS.items():
        ones = among(steps.table, "kind", *kinds).astype(np.int64)
        counted = sums_by(owners["steps"], ones, len(requests))
        yield from requests.equal(name, counted, "is the number of such steps")
    committed = sums_by(owners["steps"], steps["committed_tokens"], len(requests))
    yield from requests.equal("output_tokens", committed, "is what its steps commit")
    for name in ("revealed", "edited"):
        of_steps = sums_by(owners["steps"], steps[name], len(requests))
        of_blocks = sums_by(owners["blocks"], blocks.sums(name), len(requests))
        rule = f"steps and blocks of a request have as many {name} tokens"
        yield from requests.broken(of_steps != of_blocks, rule)


def _of_batches(manifest: CapturedManifest, requests: CheckedTable) -> Mistakes:
    """A batch has at least the forwards of its slowest row, and no more than of all its rows."""
    batches, batch = np.unique(requests["batch"], return_inverse=True)
    for name, columns in (
        ("batch_forwards", tuple(FORWARDS)),
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
