"""Draft blocks beside the clean sequence in one pass: every block as a decoder meets it.

A block sees the clean tokens before it and itself, up to each place (causal drafts) or all of it.
Blocks tile the answer from a random offset, so that drafts begin anywhere.
"""

from dataclasses import dataclass

import numpy as np

from kernels_ref.training.batches import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class DraftBlocks:
    """Which block each place belongs to, -1 where none begins yet, and its place in it.

    Both are [rows, length].
    """

    number: IntArray
    within: IntArray

    def weighted(self, weights: FloatArray, decay: float) -> FloatArray:
        """*weights* of the places, falling by *decay* with each place of a block."""
        return np.asarray(weights * decay**self.within)


def draft_blocks(
    rows: int, length: int, *, first: int, block_tokens: int, generator: np.random.Generator
) -> DraftBlocks:
    """Blocks of *block_tokens* from place *first* on; the first one of a row is cut by chance."""
    behind = np.arange(length) - first
    cut = generator.integers(block_tokens, size=(rows, 1))
    number = np.where(behind < 0, -1, (behind + cut) // block_tokens)
    starts = np.maximum(number * block_tokens - cut, 0)
    return DraftBlocks(number, np.where(behind < 0, 0, behind - starts))


def behind_clean(blocks: DraftBlocks, first: int) -> BoolArray:
    """Which clean places the drafts from place *first* on see, [rows, drafts, length]."""
    return blocks.number[:, first:, None] > blocks.number[:, None, :]


def among_drafts(blocks: DraftBlocks, first: int, *, causal: bool) -> BoolArray:
    """Which drafts from place *first* on see which, [rows, drafts, drafts]."""
    number, within = blocks.number[:, first:], blocks.within[:, first:]
    same: BoolArray = number[:, :, None] == number[:, None, :]
    earlier: BoolArray = within[:, :, None] >= within[:, None, :]
    return same & earlier if causal else same


def clean_and_drafts(blocks: DraftBlocks, first: int, *, causal: bool) -> BoolArray:
    """Who sees whom among [clean | drafts from place *first* on], [rows, tokens, tokens]."""
    rows, length = blocks.number.shape
    among_clean = np.broadcast_to(np.tri(length, dtype=np.bool_), (rows, length, length))
    hidden = np.zeros((rows, length, length - first), dtype=np.bool_)
    drafts = [behind_clean(blocks, first), among_drafts(blocks, first, causal=causal)]
    clean_rows = np.concatenate([among_clean, hidden], axis=2)
    return np.concatenate([clean_rows, np.concatenate(drafts, axis=2)], axis=1)
