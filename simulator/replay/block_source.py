"""BlockSource: the local steps of a trace's blocks as flat arrays, each with its surroundings."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from simulator.schedule import IntArray
from traces.block_manifest import BlockManifest
from traces.block_trace import BlockTrace
from traces.columns import among, entries, lengths, numbers

FIRST, INNER, LAST, BEYOND = range(4)
"""Roles of a block: it begins in the prompt; it lies within the answer; it has the answer's end;
it lies behind it. How sure a model is depends on the role."""
N_ROLES: Final = 4


@dataclass(frozen=True, eq=False)
class BlockSource:
    """A block's local steps follow one another, and so do a request's blocks.

    A local step is a forward that updated the block; counts are those before the update.
    """

    trace: BlockTrace
    from_prompt: bool
    """Whether blocks are counted from the prompt's end, not from the last whole block in it."""
    masked: IntArray
    """[local steps], and so the other counts."""
    ready: IntArray
    revealed: IntArray
    edited: IntArray
    agreeing: IntArray
    behind: IntArray
    """[local steps], masks of the block before it in the same forward; 0 where there is none."""
    block_of_step: IntArray
    start: IntArray
    """[blocks + 1], the first local step of each block."""
    role: IntArray
    """[blocks]"""
    first_block: IntArray
    """[requests + 1], the first block of each request."""

    @property
    def block_tokens(self) -> int:
        """Places of a block."""
        return self.trace.manifest.block_tokens

    @property
    def n_requests(self) -> int:
        """Requests of the trace."""
        return len(self.first_block) - 1

    @cached_property
    def prompt_tokens(self) -> IntArray:
        """Of every request, [requests]."""
        return numbers(self.trace.requests, "prompt_tokens")

    @cached_property
    def output_tokens(self) -> IntArray:
        """[requests], without the end token."""
        return numbers(self.trace.requests, "output_tokens")

    @cached_property
    def ended(self) -> IntArray:
        """[requests], 1 where an end token came, 0 where the limit cut the output."""
        return among(self.trace.requests, "finish_reason", "end").astype(np.int64)

    @cached_property
    def blocks_of_request(self) -> IntArray:
        """[requests], blocks that were ever admitted."""
        return np.diff(self.first_block)


def overwrites(manifest: BlockManifest) -> bool:
    """Whether a captured buffer may overwrite tokens: it has a threshold for that."""
    return manifest.parameters.get("tau_edit") is not None


def first_start(prompt_tokens: IntArray, block_tokens: int, *, from_prompt: bool) -> IntArray:
    """Absolute place of block 0, [requests]: the prompt's end, or its last whole block's."""
    return prompt_tokens if from_prompt else prompt_tokens // block_tokens * block_tokens


def block_source(trace: BlockTrace, *, from_prompt: bool) -> BlockSource:
    """The arrays of *trace*."""
    blocks, n_requests = trace.blocks, trace.requests.num_rows
    rows = np.searchsorted(numbers(trace.requests, "request"), numbers(blocks, "request"))
    length = lengths(blocks, "masked")
    start = np.concatenate([[0], np.cumsum(length)])
    first_block = np.searchsorted(rows, np.arange(n_requests + 1))
    block_of_step = np.repeat(np.arange(len(length)), length)
    masked = entries(blocks, "masked")
    return BlockSource(
        trace=trace,
        from_prompt=from_prompt,
        masked=masked,
        **{name: entries(blocks, name) for name in ("ready", "revealed", "edited", "agreeing")},
        behind=_behind(masked, start, block_of_step, trace),
        block_of_step=block_of_step,
        start=start,
        role=_roles(trace, rows, numbers(blocks, "block"), from_prompt=from_prompt),
        first_block=first_block,
    )


def _behind(
    masked: IntArray, start: IntArray, block_of_step: IntArray, trace: BlockTrace
) -> IntArray:
    """Masks of the block before at the forward of every local step; complete ones have none.

    The n-th local step of a block is the n-th forward from its admission on.
    """
    admitted, block = numbers(trace.blocks, "admitted"), numbers(trace.blocks, "block")
    forward = admitted[block_of_step] + np.arange(len(masked)) - start[block_of_step]
    before = np.maximum(block_of_step - 1, 0)
    place = start[before] + forward - admitted[before]
    there = (block[block_of_step] > 0) & (place < start[before + 1]) & (place >= start[before])
    return np.where(there, masked[np.minimum(place, len(masked) - 1)], 0)


def _roles(trace: BlockTrace, rows: IntArray, block: IntArray, *, from_prompt: bool) -> IntArray:
    """The role of every block, from where the answer of its request ends."""
    tokens = trace.manifest.block_tokens
    prompt = numbers(trace.requests, "prompt_tokens")
    last = last_block(
        prompt,
        numbers(trace.requests, "output_tokens"),
        tokens,
        from_prompt=from_prompt,
        ended=among(trace.requests, "finish_reason", "end").astype(np.int64),
    )
    return roles_of(block, last[rows])


def last_block(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    block_tokens: int,
    *,
    from_prompt: bool,
    ended: IntArray,
) -> IntArray:
    """The block with the end of the answer, [requests]: of its end token where it *ended*."""
    start = first_start(prompt_tokens, block_tokens, from_prompt=from_prompt)
    return (prompt_tokens + output_tokens + ended - 1 - start) // block_tokens


def roles_of(block: IntArray, last: IntArray) -> IntArray:
    """Roles of the blocks with these numbers, in answers that end in the blocks *last*."""
    inside = np.where(block < last, INNER, np.where(block == last, LAST, BEYOND))
    return np.where(block == 0, FIRST, inside)
