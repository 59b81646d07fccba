"""Selection: which requests of a file are taken, and what is changed about them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from traces.requests.request_block import RequestBlock
from traces.requests.text_column import IntArray


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A window of the file's own time, at most so many requests, clipped, at another rate."""

    from_s: float = 0.0
    """Seconds after the file's first row; what is taken starts at 0 again."""
    until_s: float = math.inf
    most_requests: int | None = None
    rate_scale: float = 1.0
    """2.0 lets requests arrive twice as fast."""
    most_prompt_tokens: int | None = None
    most_output_tokens: int | None = None
    prefix_block_tokens: int = 0


@dataclass(frozen=True)
class Taken:
    """What is taken of a block, and how many of its rows were left out or changed."""

    block: RequestBlock
    early_rows: int
    """Rows before the window."""
    clipped_prompts: int
    clipped_outputs: int


def taken(blocks: Iterator[RequestBlock], selection: Selection) -> Iterator[Taken]:
    """What *selection* takes; rows behind its end are not read. Blocks may be empty."""
    left = selection.most_requests
    for block in blocks:
        inside = _window(block, selection)
        early = int(np.count_nonzero(block.arrival_s < selection.from_s))
        kept = block.taken(inside if left is None else inside[:left])
        yield _changed(kept, selection, early)
        if left is not None:
            left -= kept.n_requests
        is_past = bool((block.arrival_s >= selection.until_s).any())
        if is_past or left == 0:
            return


def _window(block: RequestBlock, selection: Selection) -> IntArray:
    """Places of the rows in the window."""
    arrival_s = block.arrival_s
    return np.flatnonzero((arrival_s >= selection.from_s) & (arrival_s < selection.until_s))


def _changed(block: RequestBlock, selection: Selection, early_rows: int) -> Taken:
    prompts, clipped_prompts = _clipped(block.prompt_tokens, selection.most_prompt_tokens)
    outputs, clipped_outputs = _clipped(block.output_tokens, selection.most_output_tokens)
    changed = replace(
        block,
        arrival_s=(block.arrival_s - selection.from_s) / selection.rate_scale,
        prompt_tokens=prompts,
        output_tokens=outputs,
        prefixes=_covering(block, prompts, selection.prefix_block_tokens),
    )
    return Taken(changed, early_rows, clipped_prompts, clipped_outputs)


def _clipped(tokens: IntArray, most: int | None) -> tuple[IntArray, int]:
    if most is None:
        return tokens, 0
    return np.minimum(tokens, most), int(np.count_nonzero(tokens > most))


def _covering(
    block: RequestBlock, prompts: IntArray, block_tokens: int
) -> list[tuple[int, ...]] | None:
    """The prefixes, without blocks of which nothing is left in a clipped prompt."""
    if block.prefixes is None:
        return None
    most = -(-prompts // max(1, block_tokens))
    return [prefix[:n] for prefix, n in zip(block.prefixes, most.tolist(), strict=True)]
