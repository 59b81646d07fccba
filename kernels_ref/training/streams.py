"""Two streams in one pass: the clean sequence, and a noisy copy of what is to be decoded.

A noisy block sees the clean blocks before its noise group and the noisy ones of its group up to
itself, so every block of every sequence trains in the state in which a decoder meets it. With
groups of one block this is teacher-forced block diffusion (BD3-LM's two streams); with longer ones
multi-block teacher forcing; with one group behind the prompt discrete diffusion forcing.
"""

from typing import Literal

import numpy as np
import torch

from kernels_ref.kernels.visibility import Visibility
from kernels_ref.training.batches import BoolArray, IntArray, Sequences
from kernels_ref.training.noise import Blocks

Prompt = Literal["block-causal", "prefix-full", "causal"]
"""How clean tokens see one another.

Block-causal: blocks are absolute intervals, the prompt's rest begins the first one. Prefix-full:
the prompt sees all of itself, blocks are counted from its end. Causal: so are they, and every clean
token sees those up to itself.
"""
Grouping = Literal["single", "multiple", "all"]


def blocks_of(  # noqa: PLR0913 (a recipe's fields)
    given: Sequences,
    *,
    block_tokens: int,
    prompt: Prompt,
    grouping: Grouping,
    max_group: int,
    generator: np.random.Generator,
) -> Blocks:
    """Where blocks lie, and which of them form noise groups."""
    rows, length = given.tokens.shape
    positions = np.arange(length)
    if prompt == "block-causal":
        number = np.broadcast_to(positions // block_tokens, (rows, length))
    else:
        behind = positions - given.prompt_tokens[:, None]
        number = np.where(behind < 0, -1, behind // block_tokens)
    if grouping == "all":
        return Blocks(number, np.zeros_like(number))
    if grouping == "single":
        return Blocks(number, number)
    starts = np.stack([_group_starts(int(number.max()) + 1, max_group, generator) for _ in number])
    return Blocks(number, np.take_along_axis(starts, number.clip(0), axis=1))


def _group_starts(blocks: int, max_group: int, generator: np.random.Generator) -> IntArray:
    """First block of each block's group: equal groups at any offset, or random ones, by halves."""
    sizes = generator.integers(1, max_group + 1, blocks + 1)
    if generator.random() < 0.5:  # noqa: PLR2004 (systematic and random layouts alike)
        sizes[:] = max_group
    sizes[0] = generator.integers(1, max_group + 1)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)[:blocks]
    return np.asarray(starts, dtype=np.int64)


def two_streams(blocks: Blocks, prompt: Prompt, first: int) -> Visibility:
    """Who sees whom among [clean | noisy from position *first* on], both in one row."""
    clean, group = blocks.number, blocks.group[:, first:]
    noisy = clean[:, first:]
    rows, length = clean.shape
    if prompt == "causal":
        positions = np.arange(length)
        among_clean = np.broadcast_to(positions[:, None] >= positions, (rows, length, length))
    else:
        among_clean = clean[:, :, None] >= clean[:, None, :]
    # A group that begins before the noisy stream does has its clean blocks up to there.
    from_clean = np.maximum(group, noisy[:, :1])[:, :, None] > clean[:, None, :]
    from_noisy = (group[:, :, None] <= noisy[:, None, :]) & (noisy[:, None, :] <= noisy[:, :, None])
    hidden = np.zeros((rows, length, noisy.shape[1]), dtype=bool)
    seen = np.concatenate(
        [
            np.concatenate([among_clean, hidden], axis=2),
            np.concatenate([from_clean, from_noisy], axis=2),
        ],
        axis=1,
    )
    return given_pairs(seen)


def given_pairs(seen: BoolArray) -> Visibility:
    """The visibility that *seen* [rows, queries, keys] spells out, the queries' own keys last."""
    pairs = torch.from_numpy(seen)
    rows, queries, keys = pairs.shape

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return pairs[row, query, key]

    return Visibility(rule, torch.full((rows,), keys - queries), torch.full((rows,), queries))
