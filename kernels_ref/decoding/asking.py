"""The queries that decoders have in common: prefill, live blocks, and the masks they see by."""

import numpy as np

from kernels_ref.decoding.batch import Decoding
from kernels_ref.decoding.query import IntArray, Kind, Query
from kernels_ref.decoding.sequence import Sequence


def block_horizon(sequence: Sequence, left: int, right: int) -> IntArray:
    """The end of its own block for every place from *left* up to *right*: block-causal.

    What lies before block 0 is whole blocks of a prompt, so their ends are multiples too.
    """
    behind = np.arange(left, right) - sequence.first_start
    return sequence.first_start + (behind // sequence.block_tokens + 1) * sequence.block_tokens


def prefill(sequence: Sequence) -> Query | None:
    """The whole blocks of the prompt, block-causal, no logits; None for a prompt without one."""
    end = sequence.first_start
    if end == 0:
        return None
    tokens, horizon = sequence.tokens[:end].copy(), block_horizon(sequence, 0, end)
    return Query("prefill", 0, tokens, horizon, end, asked=end)


def prefilled(sequence: Sequence) -> Decoding:
    """A row's decoder as far as `prefill`, which it asks for where there is anything to."""
    query = prefill(sequence)
    if query is not None:
        yield query


def live_blocks(  # noqa: PLR0913 (a query's fields)
    sequence: Sequence,
    left: int,
    right: int,
    *,
    kind: Kind = "denoise",
    padded_blocks: int | None = None,
    asked_from: int | None = None,
) -> Query:
    """Blocks *left* up to *right* behind everything before them, block-causal.

    FlowBlock, equation 5, row by row. The row takes the slots of *padded_blocks* blocks, as many
    as are live when absent; blocks before *asked_from* get no logits.
    """
    start, end = sequence.start(left), sequence.start(right)
    slots = max(right - left, padded_blocks or 0)
    asked = 0 if asked_from is None else (asked_from - left) * sequence.block_tokens
    return Query(
        kind,
        start,
        sequence.window(left, right),
        block_horizon(sequence, start, end),
        slots * sequence.block_tokens,
        asked=asked,
    )
