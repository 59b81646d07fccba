"""The rules that the rows of a block trace keep."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from traces.block_tables import FINISH_REASONS, KINDS, LOCAL_LISTS, IntArray, among
from traces.captured import CapturedManifest
from traces.checked_table import CheckedTable, sums_by
from traces.total_rules import total_mistakes
from traces.trace_error import TraceMistake

Mistakes = Iterator[TraceMistake]
# Columns that are counts or numbers and have no narrower rule.
COUNTED = {
    "requests": ("request", "problem", "batch", "prefill_forwards", "store_forwards"),
    "blocks": (),
    "steps": ("prefix_tokens", "revealed", "edited", "committed_tokens"),
}
LARGEST = 2**31 - 1


def contradictions(manifest: CapturedManifest, tables: Mapping[str, pa.Table]) -> Mistakes:
    """Every rule that is broken by tables whose columns are right, with the first row of each."""
    checked = {
        name: CheckedTable(name, manifest.tables[name].file, table)
        for name, table in tables.items()
    }
    requests, blocks, steps = checked["requests"], checked["blocks"], checked["steps"]
    owners = {t.name: owner_of(requests["request"], t["request"]) for t in (blocks, steps)}
    for table in checked.values():
        for column in COUNTED[table.name]:
            yield from table.between(column, 0, LARGEST, "a count")
    yield from _requests(requests, manifest)
    for table, number in ((blocks, "block"), (steps, "step")):
        yield from table.broken(owners[table.name] < 0, "its request is not among the requests")
        yield from _numbering(table, number)
    n_steps = sums_by(owners["steps"], np.ones(len(steps), dtype=np.int64), len(requests))
    yield from _blocks(blocks, np.where(owners["blocks"] < 0, 0, n_steps[owners["blocks"]]))
    yield from _local_steps(blocks, manifest.block_tokens)
    yield from _steps(steps)
    yield from total_mistakes(manifest, checked, owners)


def owner_of(requests: IntArray, of_rows: IntArray) -> IntArray:
    """The row of *requests* that each of *of_rows* names, -1 where none has that number."""
    order = np.argsort(requests, kind="stable")
    found = np.searchsorted(requests, of_rows, sorter=order)
    row = order[np.minimum(found, len(order) - 1)]
    return np.where(requests[row] == of_rows, row, -1)


def _requests(requests: CheckedTable, manifest: CapturedManifest) -> Mistakes:
    number = requests["request"]
    back = np.concatenate([[False], number[1:] <= number[:-1]])
    yield from requests.broken(back, "requests are there once, in the order of their numbers")
    limit, batch = manifest.output_limit_tokens, manifest.batch
    yield from requests.between("prompt_tokens", 1, LARGEST, "a prompt has tokens")
    yield from requests.between("denoise_forwards", 1, LARGEST, "a request is decoded")
    yield from requests.between("output_tokens", 0, limit, "the output limit")
    yield from requests.equal("output_tokens", requests.lengths("output"), "is the output's length")
    yield from requests.between("row", 0, batch - 1, f"for a batch has {batch} rows")
    places = requests["batch"] * batch + requests["row"]
    first = np.unique(places, return_index=True)[1]
    again = ~np.isin(np.arange(len(places)), first)
    yield from requests.broken(again, "a row of a batch is one request's, got a second one's")
    yield from _words(requests, "finish_reason", FINISH_REASONS)


def _words(table: CheckedTable, column: str, words: tuple[str, ...]) -> Mistakes:
    wrong = ~among(table.table, column, *words)
    if wrong.any():
        got = table.table[column][int(np.argmax(wrong))].as_py()
        yield from table.broken(wrong, f"{column} is {' or '.join(words)}, got {got!r}")


def _numbering(table: CheckedTable, number: str) -> Mistakes:
    """Rows are grouped by request, and within one they count from 0."""
    request = table["request"]
    starts = np.flatnonzero(np.diff(request, prepend=request[:1] - 1))
    counted = np.arange(len(table)) - np.repeat(starts, np.diff(starts, append=len(table)))
    yield from table.equal(number, counted, "counts from 0 within a request")
    back = np.diff(request, prepend=request[:1]) < 0
    yield from table.broken(back, "rows are in the order of their requests")


def _blocks(blocks: CheckedTable, n_steps: IntArray) -> Mistakes:
    """Forwards that *n_steps* of its request contain, in the order of a block's life."""
    yield from blocks.between("admitted", 0, n_steps, "the request's forwards")
    for name in ("finished", "retired"):
        yield from blocks.between(name, -1, n_steps - 1, "a forward of the request, -1 for never")
    admitted, finished, retired = (blocks[name] for name in ("admitted", "finished", "retired"))
    early = (finished >= 0) & (finished < admitted)
    yield from blocks.broken(early, "a block finishes after it is admitted, not before")
    unfinished = (retired >= 0) & ((finished < 0) | (finished > retired))
    yield from blocks.broken(unfinished, "a block retires when it has finished, not before")
    lived = np.where(retired >= 0, retired + 1, n_steps) - admitted
    long = blocks.lengths("masked") > np.maximum(lived, 0)
    yield from blocks.broken(long, "a block has a local step per forward that it lives, at most")


def _local_steps(blocks: CheckedTable, block_tokens: int) -> Mistakes:
    length = blocks.lengths("masked")
    unequal = np.any([blocks.lengths(name) != length for name in LOCAL_LISTS], axis=0)
    yield from blocks.broken(unequal, f"{', '.join(LOCAL_LISTS)} are of one length")
    for name in LOCAL_LISTS:
        values = blocks.entries(name)
        outside = (values < 0) | (values > block_tokens)
        yield from blocks.broken_entries(name, outside, f"{name} is 0 to {block_tokens}, the block")
    if unequal.any():
        return
    for name in ("ready", "revealed"):
        more = blocks.entries(name) > blocks.entries("masked")
        yield from blocks.broken_entries(name, more, f"{name} is at most masked")


def _steps(steps: CheckedTable) -> Mistakes:
    yield from _words(steps, "kind", KINDS)
    yield from steps.between("padded_tokens", 1, LARGEST, "a forward has tokens")
    for name in ("query_tokens", "logit_rows"):
        yield from steps.between(name, 0, steps["padded_tokens"], "the padded tokens")
    yield from steps.between("window_left", 0, steps["window_right"], "the window's right end")
