"""Queries as decoders ask them, and what a model answers to a row's blocks one after another."""

import numpy as np
import torch

from kernels_ref.decoding.query import Cache, IntArray, Model, Query


def block_query(tokens: IntArray, left: int, right: int, *, block: int, asked: int = 0) -> Query:
    """Places *left* up to *right* of *tokens*, block-causal."""
    horizon = (np.arange(left, right) // block + 1) * block
    return Query("denoise", left, tokens[left:right].copy(), horizon, right - left, asked=asked)


def by_blocks(
    model: Model, rows: list[IntArray], block: int, cache: Cache | None = None
) -> list[torch.Tensor]:
    """Logits of every place of every row, asked a block at a time, all rows in one forward.

    Each block is asked twice, first full of masks. Rows that are over wait.
    """
    longest = max(len(row) for row in rows)
    kept = model.new_cache(len(rows), longest) if cache is None else cache
    found: list[list[torch.Tensor]] = [[] for _ in rows]
    for left in range(0, longest, block):
        queries = [
            block_query(row, left, min(left + block, len(row)), block=block)
            if left < len(row)
            else None
            for row in rows
        ]
        masked = [
            None
            if query is None
            else Query(
                "denoise",
                left,
                np.full_like(query.tokens, model.facts.mask_token),
                query.horizon,
                block,
            )
            for query in queries
        ]
        model.forward(masked, kept)
        for row, answer in enumerate(model.forward(queries, kept)):
            if answer is not None:
                found[row].append(answer.logits)
    return [torch.cat(each) for each in found]


def differs_by(found: torch.Tensor, expected: torch.Tensor, mask: int) -> float:
    """The largest difference of logits, the mask's own left out."""
    others = torch.arange(expected.shape[1]) != mask
    return float((found[:, others] - expected[:, others]).abs().max())
