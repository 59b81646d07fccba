"""BlockRequests: the texts that are replayed, as blocks with roles and recorded trajectories."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.replay import keyed_draws
from simulator.replay.block_source import (
    BEYOND,
    FIRST,
    INNER,
    LAST,
    BlockSource,
    first_start,
    last_block,
    roles_of,
)
from simulator.request import Request
from simulator.schedule import IntArray

NO_BLOCK = -1
MOST_AHEAD = 64
"""Blocks that are kept track of behind the last one that was admitted or has the answer's end: as
many as a window may have."""
NEAR_FIRST_BLOCKS = 8
"""Requests among which chance decides whose first block begins a resampled one: those that leave
most nearly as many places of it to the answer."""


@dataclass(frozen=True, eq=False)
class BlockRequests:
    """Arrays [requests], or [requests, blocks] as wide as the longest request."""

    prompt_tokens: IntArray
    output_tokens: IntArray
    start: IntArray
    """Absolute place of block 0."""
    n_blocks: IntArray
    """Blocks up to the limit of the output."""
    last: IntArray
    """The block with which a request is over once it is final."""
    seen_end: IntArray
    """1 where the model ends its answer, so that an end token comes to stand in it."""
    most_blocks: IntArray
    """Blocks that were ever admitted, which is when an end token came to stand; n_blocks for all
    but captured requests."""
    masks: IntArray
    """[requests, blocks], places of each block that the answer has to fill."""
    roles: IntArray
    """[requests, blocks]"""
    recorded: IntArray
    """[requests, blocks], the block of the trace whose trajectory it begins on, or NO_BLOCK."""
    keys: IntArray
    """[2, requests], seed and number of each request, which draws are keyed by."""
    is_captured: bool
    """Whether all of them are requests of the trace as they were."""

    @property
    def n_requests(self) -> int:
        """Requests."""
        return len(self.start)


def captured_requests(source: BlockSource, rows: IntArray) -> BlockRequests:
    """Requests of the trace, those of the given *rows*, as they were."""
    prompt, output = source.prompt_tokens[rows], source.output_tokens[rows]
    tokens, ended = source.block_tokens, source.ended[rows]
    start = first_start(prompt, tokens, from_prompt=source.from_prompt)
    limit = source.trace.manifest.output_limit_tokens
    last = last_block(prompt, output, tokens, from_prompt=source.from_prompt, ended=ended)
    ahead = np.maximum(last + 1, source.blocks_of_request[rows]) + MOST_AHEAD
    n_blocks = np.minimum(-(-(prompt + limit - start) // tokens), ahead)
    block = np.arange(n_blocks.max(initial=1))
    recorded = source.first_block[rows][:, None] + block
    return BlockRequests(
        prompt_tokens=prompt,
        output_tokens=output,
        start=start,
        n_blocks=n_blocks,
        last=last,
        seen_end=ended,
        most_blocks=source.blocks_of_request[rows],
        masks=_masks(prompt, start, block, tokens),
        roles=roles_of(block, last[:, None]),
        recorded=np.where(block < source.blocks_of_request[rows][:, None], recorded, NO_BLOCK),
        keys=np.stack([np.zeros_like(rows), rows]),
        is_captured=True,
    )


def resampled_requests(source: BlockSource, requests: Sequence[Request]) -> BlockRequests:
    """*requests* of any length, made of the trace's: one's blocks in their order, then another's.

    So neighbours are those of the trace but where one request's end and the next one's begin.
    """
    prompt = np.array([request.prompt_tokens for request in requests])
    output = np.array([request.output_tokens for request in requests])
    keys = np.array([request.key for request in requests]).T
    tokens = source.block_tokens
    start = first_start(prompt, tokens, from_prompt=source.from_prompt)
    n_blocks = -(-(prompt + output - start) // tokens)
    block = np.arange(n_blocks.max(initial=1))
    masks = _masks(prompt, start, block, tokens)
    roles = roles_of(block, (n_blocks - 1)[:, None])
    recorded = np.stack(
        [
            _drawn_blocks(source, int(masks[row, 0]), int(n_blocks[row]), keys[:, row], len(block))
            for row in range(len(requests))
        ]
    )
    return BlockRequests(
        prompt_tokens=prompt,
        output_tokens=output,
        start=start,
        n_blocks=n_blocks,
        last=n_blocks - 1,
        seen_end=np.zeros_like(start),
        most_blocks=n_blocks,
        masks=masks,
        roles=roles,
        recorded=recorded,
        keys=keys,
        is_captured=False,
    )


def _masks(prompt_tokens: IntArray, start: IntArray, block: IntArray, tokens: int) -> IntArray:
    """Places of every block that are not the prompt's, [requests, blocks]."""
    end = start[:, None] + (block + 1) * tokens
    masks: IntArray = np.clip(end - prompt_tokens[:, None], 0, tokens)
    return masks


def _drawn_blocks(
    source: BlockSource, first_masks: int, n_blocks: int, key: IntArray, width: int
) -> IntArray:
    """Recorded blocks for the *n_blocks* of one request, filled up to *width* with NO_BLOCK."""
    donors = _donors(source)
    drawn = [_first_block(source, first_masks, key)]
    donor = int(np.searchsorted(source.first_block, drawn[0], side="right")) - 1
    inner = donors[donor]
    turn = 0
    while len(drawn) < n_blocks:
        drawn.extend(inner.tolist())
        turn += 1
        inner = donors[int(keyed_draws.below(len(donors), *key, turn))]
    row = np.full(width, NO_BLOCK)
    row[:n_blocks] = drawn[:n_blocks]
    return row


def _donors(source: BlockSource) -> list[IntArray]:
    """The inner blocks of every request, those with the answer's end where none has any."""
    for roles in ((INNER,), (LAST,), (FIRST, BEYOND)):
        chosen = np.isin(source.role, roles)
        if chosen.any():
            break
    bounds = zip(source.first_block, source.first_block[1:], strict=False)
    return [np.flatnonzero(chosen[first:end]) + first for first, end in bounds]


def _first_block(source: BlockSource, masks: int, key: IntArray) -> int:
    """A recorded block 0 that had most nearly as many masks."""
    blocks = source.first_block[:-1][np.diff(source.first_block) > 0]
    blocks = blocks[np.diff(source.start)[blocks] > 0]
    apart = np.abs(source.masked[source.start[blocks]] - masks)
    last = np.sort(apart)[:NEAR_FIRST_BLOCKS][-1]
    near = blocks[apart <= last]
    return int(near[keyed_draws.below(len(near), *key, 0)])
