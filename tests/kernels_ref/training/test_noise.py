"""Noise: which places are masked, how many, and what stands where tokens are wrong."""

from math import comb

import pytest

pytest.importorskip("torch")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kernels_ref.task.vocabulary import END, MASK, WORDS
from kernels_ref.training.batches import BoolArray, FloatArray, IntArray, Sequences, sequences
from kernels_ref.training.noise import (
    SCHEDULES,
    Blocks,
    Schedule,
    chain_uniform,
    corrupted,
    independent,
    masked,
    monotonic,
    uniform,
)
from kernels_ref.training.streams import blocks_of

DRAWS = 20_000
LEAST_P = 1e-4
"""Below this, with the draws fixed by a seed, a law is taken to be another one."""


def generator(seed: int = 0) -> np.random.Generator:
    """A source of chance."""
    return np.random.default_rng(seed)


def follows_independent_law(ratios: FloatArray) -> None:
    """One in five is 1, the others are uniform."""
    whole = ratios == 1.0
    error = (0.2 * 0.8 / len(ratios)) ** 0.5
    assert abs(whole.mean() - 0.2) < 4 * error
    assert stats.kstest(ratios[~whole], "uniform").pvalue > LEAST_P


def test_independent_ratios() -> None:
    """Their law, and no block says anything about the one behind it."""
    ratios = independent(np.arange(DRAWS), generator())
    follows_independent_law(ratios)
    assert abs(np.corrcoef(ratios[:-1], ratios[1:])[0, 1]) < 4 / DRAWS**0.5


@st.composite
def groups(draw: st.DrawFn) -> IntArray:
    """First block of each block's group."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    return np.repeat(np.cumsum(sizes) - sizes, sizes)


@given(group=groups(), seed=st.integers(0, 2**32))
def test_chain_uniform_ratios_rise_along_a_group(group: IntArray, seed: int) -> None:
    """Multi-block diffusion: each block of a group is at least as noisy as the one before it."""
    ratios = chain_uniform(group, generator(seed))
    assert ((ratios >= 0) & (ratios <= 1)).all()
    for block in range(1, len(group)):
        if group[block] < block:
            assert ratios[block] >= max(ratios[block - 1], 0.001)


def test_chain_uniform_ratios_are_uniform_above_the_block_before() -> None:
    """The first of a group has the independent law, the second the same between it and 1."""
    group = np.repeat(np.arange(0, DRAWS, 2), 2)
    ratios = chain_uniform(group, generator())
    first, second = ratios[::2], ratios[1::2]
    follows_independent_law(first)
    low = np.maximum(first, 0.001)
    follows_independent_law(((second - low) / (1 - low).clip(1e-300))[first < 1])
    assert (second[first == 1] == 1).all()
    # Across groups nothing holds.
    assert (first[1:] < second[:-1]).any()


def test_monotonic_ratios() -> None:
    """Equally spaced and rising; lowest the smaller of two uniforms; one in 3.3 ends at 1."""
    source = generator()
    drawn = np.array([monotonic(np.zeros(7, dtype=np.int64), source) for _ in range(5000)])
    assert ((drawn >= 0) & (drawn <= 1)).all()
    steps = np.diff(drawn, axis=1)
    assert (steps >= 0).all()
    assert np.allclose(steps, steps[:, :1], atol=1e-12)
    assert stats.kstest(drawn[:, 0], stats.beta(1, 2).cdf).pvalue > LEAST_P
    to_end = drawn[:, -1] == 1.0
    assert abs(to_end.mean() - 0.3) < 4 * (0.3 * 0.7 / 5000) ** 0.5
    assert stats.kstest(drawn[~to_end, -1], stats.beta(2, 1).cdf).pvalue > LEAST_P


def layout(given_rows: Sequences, prompt: str, grouping: str, seed: int) -> Blocks:
    """Blocks of 16, groups of up to three."""
    return blocks_of(
        given_rows,
        block_tokens=16,
        prompt=prompt,  # type: ignore[arg-type]
        grouping=grouping,  # type: ignore[arg-type]
        max_group=3,
        generator=generator(seed),
    )


@given(
    seed=st.integers(0, 2**32),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    prompt=st.sampled_from(["block-causal", "prefix-full", "causal"]),
    grouping=st.sampled_from(["single", "multiple", "all"]),
)
@settings(max_examples=60)
def test_prompts_are_never_masked(
    seed: int, schedule: Schedule, prompt: str, grouping: str
) -> None:
    """Whatever the schedule and the layout."""
    given_rows = sequences(3, 16, seed)
    blocks = layout(given_rows, prompt, grouping, seed)
    hidden = masked(given_rows, blocks, schedule, generator(seed))
    assert hidden.shape == given_rows.tokens.shape
    assert not (hidden & ~given_rows.is_answer).any()


def plain_rows(rows: int, length: int) -> Sequences:
    """Rows of end tokens behind prompts of one block."""
    tokens = np.full((rows, length), END)
    return Sequences(tokens, np.full(rows, 16), np.ones((rows, length)))


@pytest.fixture(scope="module")
def by_block() -> BoolArray:
    """Masks of 2000 blocks by the independent schedule, [blocks, 16]."""
    given_rows = plain_rows(200, 16 * 11)
    hidden = masked(
        given_rows, layout(given_rows, "causal", "single", 0), "independent", generator()
    )
    return hidden[:, 16:].reshape(-1, 16)


def test_so_many_are_masked_as_the_ratio_says(by_block: BoolArray) -> None:
    """A mean of 0.2 + 0.8 / 2; one block in five wholly, and some more by chance."""
    shares = by_block.mean(axis=1)
    assert shares.mean() == pytest.approx(0.6, abs=4 * shares.std() / len(shares) ** 0.5)
    # A uniform ratio masks all 16 places one by one in 1 of 17 cases, as a suffix in 1 of 32.
    whole = 0.2 + 0.8 * (0.7 / 17 + 0.3 / 32)
    assert (shares == 1).mean() == pytest.approx(whole, abs=4 * (whole / len(shares)) ** 0.5)


def test_three_blocks_in_ten_are_masked_from_a_place_on(by_block: BoolArray) -> None:
    """What decoders often leave; one by one it comes about in 1 of 17 C(16, k) cases."""
    kept = (~by_block).sum(axis=1)
    from_a_place = (by_block == (np.arange(16) >= kept[:, None])).all(axis=1)
    found = (from_a_place & (kept > 0) & (kept < 16)).mean()
    by_chance = sum(1 / (17 * comb(16, k)) for k in range(1, 16))
    expected = 0.8 * (0.3 * 15 / 16 + 0.7 * by_chance)
    assert found == pytest.approx(expected, abs=4 * (expected / len(by_block)) ** 0.5)


@given(seed=st.integers(0, 2**32), most=st.floats(0, 1))
@settings(max_examples=30)
def test_only_visible_answers_are_corrupted(seed: int, most: float) -> None:
    """Prompts and masked places stay as they are, and no token becomes the mask."""
    given_rows = sequences(3, 16, seed)
    visible = generator(seed).random(given_rows.tokens.shape) < 0.5
    blocks = layout(given_rows, "block-causal", "single", seed)
    found = corrupted(given_rows, blocks, visible, most, generator(seed))
    changed = found != given_rows.tokens
    assert not (changed & ~(visible & given_rows.is_answer)).any()
    assert not (found == MASK).any()
    assert found.max() < len(WORDS)


def test_corruption_stays_below_its_bound() -> None:
    """Four blocks in ten have up to 0.3 of wrong tokens: 0.06 on average, less what fell back."""
    given_rows = sequences(200, 16, 0)
    blocks = layout(given_rows, "block-causal", "single", 0)
    everything = np.ones(given_rows.tokens.shape, dtype=bool)
    found = corrupted(given_rows, blocks, everything, 0.3, generator())
    text = given_rows.is_answer & (given_rows.weights >= 1)
    changed = (found != given_rows.tokens)[text]
    assert 0.04 < changed.mean() < 0.06
    numbers = text & (given_rows.weights == 2) & (found != given_rows.tokens)
    stays = np.mean([WORDS[token].isdigit() for token in found[numbers]])
    # 0.7 become a number, nine times in ten another one; else a neighbour, or one word in ten.
    assert 0.6 < stays < 0.8
    assert (corrupted(given_rows, blocks, everything, 0.0, generator()) == given_rows.tokens).all()


def test_uniform_noise_is_any_token_but_the_mask() -> None:
    """All of the vocabulary equally often where noisy, everything else untouched."""
    given_rows = plain_rows(300, 160)
    noisy = generator(1).random(given_rows.tokens.shape) < 0.5
    found = uniform(given_rows, noisy, generator(2))
    assert (found[~noisy] == given_rows.tokens[~noisy]).all()
    counts = np.bincount(found[noisy], minlength=len(WORDS))
    assert counts[MASK] == 0
    assert stats.chisquare(counts[1:]).pvalue > LEAST_P
