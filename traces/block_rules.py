"""The rules that the rows of a trace of blocks keep beyond those of every trace."""

from types import MappingProxyType
from typing import Final

import numpy as np

from traces.block_manifest import BlockManifest
from traces.block_tables import KINDS, LOCAL_LISTS
from traces.checked_table import LARGEST, CheckedTable, sums_by
from traces.columns import IntArray
from traces.record_form import Mistakes, Owners, Tables

COUNTED: Final = MappingProxyType(
    {
        "requests": ("prefill_forwards", "store_forwards"),
        "blocks": (),
        "steps": ("prefix_tokens", "revealed", "edited", "committed_tokens"),
    }
)
"""Columns that are counts or numbers and have no narrower rule."""


def block_mistakes(manifest: BlockManifest, tables: Tables, owners: Owners) -> Mistakes:
    """Every rule that is broken; *owners* are the rows of requests that other rows belong to."""
    requests, blocks, steps = tables["requests"], tables["blocks"], tables["steps"]
    yield from requests.between("denoise_forwards", 1, LARGEST, "a request is decoded")
    n_steps = sums_by(owners["steps"], np.ones(len(steps)), len(requests))
    yield from _blocks(blocks, np.where(owners["blocks"] < 0, 0, n_steps[owners["blocks"]]))
    yield from _local_steps(blocks, manifest.block_tokens)
    yield from _steps(steps)
    yield from _of_requests(tables, owners)
    updated = sums_by(owners["blocks"], blocks.lengths("masked"), len(requests))
    yield from requests.broken(updated == 0, "a request has blocks that forwards updated")
    yield from _of_forwards(manifest, tables, owners)


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
    masked, revealed = blocks.entries("masked"), blocks.entries("revealed")
    for name in ("ready", "revealed"):
        more = blocks.entries(name) > masked
        yield from blocks.broken_entries(name, more, f"{name} is at most masked")
    # More may be left, where tokens become noise again.
    first = np.cumsum(length) - length
    fewer = masked < np.roll(masked - revealed, 1)
    fewer[first[length > 0]] = False
    yield from blocks.broken_entries("masked", fewer, "masks that are not revealed stay")
    left = np.zeros_like(length)
    left[length > 0] = (masked - revealed)[(first + length - 1)[length > 0]]
    incomplete = (blocks["retired"] >= 0) & ((length == 0) | (left > 0))
    yield from blocks.broken(incomplete, "a block that retires has no mask left")


def _steps(steps: CheckedTable) -> Mistakes:
    yield from steps.spelled("kind", KINDS)
    yield from steps.between("padded_tokens", 1, LARGEST, "a forward has tokens")
    for name in ("query_tokens", "logit_rows"):
        yield from steps.between(name, 0, steps["padded_tokens"], "the padded tokens")
    yield from steps.between("window_left", 0, steps["window_right"], "the window's right end")


def _of_requests(tables: Tables, owners: Owners) -> Mistakes:
    """What a request's steps say of it, and what its blocks do."""
    requests, blocks, steps = tables["requests"], tables["blocks"], tables["steps"]
    committed = sums_by(owners["steps"], steps["committed_tokens"], len(requests))
    yield from requests.equal("output_tokens", committed, "is what its steps commit")
    for name in ("revealed", "edited"):
        of_steps = sums_by(owners["steps"], steps[name], len(requests))
        of_blocks = sums_by(owners["blocks"], blocks.sums(name), len(requests))
        rule = f"steps and blocks of a request have as many {name} tokens"
        yield from requests.broken(of_steps != of_blocks, rule)


def _of_forwards(manifest: BlockManifest, tables: Tables, owners: Owners) -> Mistakes:
    """What a forward says of itself, and what the blocks do at it.

    The n-th local step of a block is the n-th forward from its admission on.
    """
    blocks, steps = tables["blocks"], tables["steps"]
    length = blocks.lengths("masked")
    if any((blocks.lengths(name) != length).any() for name in LOCAL_LISTS):
        return
    number = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    block = np.repeat(np.arange(len(blocks)), length)
    at = _forward_of(tables, owners, block, blocks["admitted"][block] + number)
    for name in ("revealed", "edited"):
        of_blocks = sums_by(at, blocks.entries(name), len(steps))
        yield from steps.equal(name, of_blocks, "is what the blocks' local steps say")
    gone = np.flatnonzero(blocks["retired"] >= 0)
    at = _forward_of(tables, owners, gone, blocks["retired"][gone])
    most = manifest.block_tokens * sums_by(at, np.ones(len(gone)), len(steps))
    rule = "of the blocks that retire with the forward"
    yield from steps.between("committed_tokens", 0, most, rule)


def _forward_of(tables: Tables, owners: Owners, block: IntArray, step: IntArray) -> IntArray:
    """Rows of `steps` that are the forwards *step* of the requests of *block*; -1 for none."""
    n_requests = len(tables["requests"])
    n_steps = sums_by(owners["steps"], np.ones(len(tables["steps"])), n_requests)
    request = owners["blocks"][block]
    there = (request >= 0) & (step >= 0) & (step < n_steps[request])
    return np.where(there, (np.cumsum(n_steps) - n_steps)[request] + step, -1)
