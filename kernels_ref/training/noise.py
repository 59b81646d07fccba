"""Noise on blocks: how much of each block is masked, and which of its visible tokens are wrong.

A schedule gives every block of a row its mask ratio. Blocks of a group are seen noisy by the later
ones of the same group, so ratios rise along it: what is decoded first is clean first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels_ref.task.vocabulary import BEGIN, FIRST_NUMBER, LARGEST_NUMBER, MASK, WORDS
from kernels_ref.training.batches import BoolArray, FloatArray, IntArray, Sequences

Schedule = Literal["independent", "chain-uniform", "monotonic"]

FULLY_MASKED_SHARE = 0.2
SUFFIX_SHARE = 0.3
CORRUPTED_BLOCK_SHARE = 0.4
NEIGHBOUR_SHARE = 0.5
NUMBER_SHARE = 0.7
LOWEST_RATIO = 0.001
"""Multi-block diffusion, table 5: t_low; t_high is 1."""


@dataclass(frozen=True)
class Blocks:
    """Where the blocks of a row lie: absolute intervals, or counted from the prompt's end."""

    number: IntArray
    """Of each position, [rows, length]; -1 for a prompt that is outside all blocks."""
    group: IntArray
    """First block of the noise group of each position, [rows, length]."""


def independent(group: IntArray, generator: np.random.Generator) -> FloatArray:
    """Uniform ratios, one in five blocks wholly masked, as every block is when it starts."""
    ratios = generator.random(len(group))
    ratios[generator.random(len(group)) < FULLY_MASKED_SHARE] = 1.0
    return ratios


def chain_uniform(group: IntArray, generator: np.random.Generator) -> FloatArray:
    """Uniform between the ratio of the block before in the group, and 1 (multi-block diffusion)."""
    ratios = independent(group, generator)
    for block in range(1, len(group)):
        if group[block] < block:
            before = max(ratios[block - 1], LOWEST_RATIO)
            ratios[block] = before + (1 - before) * ratios[block]
    return ratios


def monotonic(group: IntArray, generator: np.random.Generator) -> FloatArray:
    """Ratios rising over all blocks behind the prompt (discrete diffusion forcing).

    Equally spaced from one level to another, both drawn: the first block is the cleanest.
    """
    low, high = np.sort(generator.random(2))
    high = 1.0 if generator.random() < SUFFIX_SHARE else high
    return np.linspace(low, high, len(group))


SCHEDULES: dict[Schedule, Callable[[IntArray, np.random.Generator], FloatArray]] = {
    "independent": independent,
    "chain-uniform": chain_uniform,
    "monotonic": monotonic,
}


def masked(
    given: Sequences, blocks: Blocks, schedule: Schedule, generator: np.random.Generator
) -> BoolArray:
    """Positions to mask, [rows, length]; never in a prompt."""
    rows, length = given.tokens.shape
    out = np.zeros((rows, length), dtype=bool)
    for row in range(rows):
        number = blocks.number[row]
        firsts = np.array([blocks.group[row][number == b].max() for b in range(number.max() + 1)])
        ratios = SCHEDULES[schedule](firsts, generator)
        for block, ratio in enumerate(ratios):
            places = np.flatnonzero((number == block) & given.is_answer[row])
            out[row, places] = _masked_places(len(places), float(ratio), generator)
    return out


def _masked_places(places: int, ratio: float, generator: np.random.Generator) -> BoolArray:
    """Each place by chance, or, as decoders often leave it, the last ones."""
    if generator.random() < SUFFIX_SHARE:
        return np.arange(places) >= round(places * (1 - ratio))
    return generator.random(places) < ratio


def corrupted(
    given: Sequences,
    blocks: Blocks,
    visible: BoolArray,
    most: float,
    generator: np.random.Generator,
) -> IntArray:
    """Tokens with up to a share *most* of the *visible* ones wrong, in four blocks of ten.

    A number mostly becomes another number; a word, half of the time, its neighbour, which is what
    a decoder that is off by one writes, else any other.
    """
    tokens = given.tokens
    rows, length = tokens.shape
    per_block = (rows, int(blocks.number.max()) + 1)
    shares = generator.random(per_block) * most
    shares[generator.random(per_block) >= CORRUPTED_BLOCK_SHARE] = 0.0
    share = np.take_along_axis(shares, blocks.number.clip(0), axis=1)
    wrong = visible & given.is_answer & (generator.random((rows, length)) < share)
    sides = np.where(generator.random(tokens.shape) < 0.5, -1, 1)  # noqa: PLR2004 (either)
    beside = np.take_along_axis(tokens, (np.arange(length) + sides).clip(0, length - 1), axis=1)
    words = generator.integers(BEGIN + 1, len(WORDS), tokens.shape)
    numbers = generator.integers(FIRST_NUMBER, FIRST_NUMBER + LARGEST_NUMBER + 1, tokens.shape)
    other = np.where(generator.random(tokens.shape) < NEIGHBOUR_SHARE, beside, words)
    is_number = (tokens >= FIRST_NUMBER) & (tokens <= FIRST_NUMBER + LARGEST_NUMBER)
    as_number = is_number & (generator.random(tokens.shape) < NUMBER_SHARE)
    return np.where(wrong, np.where(as_number, numbers, other), tokens)


def uniform(given: Sequences, noisy: BoolArray, generator: np.random.Generator) -> IntArray:
    """Tokens with every *noisy* position drawn from the whole vocabulary but the mask."""
    drawn = generator.integers(MASK + 1, len(WORDS), given.tokens.shape)
    return np.where(noisy, drawn, given.tokens)
