"""Laws of acceptance, over every shipped trace, benchmark, block and tree: means and draws."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from tests.traces.shipped import ACCEPTANCE as NAMES
from traces.acceptance import AcceptanceModel, acceptance_model, largest_block, largest_tree
from traces.manifest import Manifest, read_manifest

N_STEPS = 4000


@cache
def shipped(name: str) -> Manifest:
    """The manifest of a trace that comes with the package."""
    return read_manifest(traces.DATA / name / traces.MANIFEST_FILE)


@cache
def fitted(name: str, benchmark: str) -> AcceptanceModel:
    """Its acceptance on one benchmark."""
    return acceptance_model(shipped(name), benchmark)


MODELS = [(name, benchmark) for name in NAMES for benchmark in shipped(name).benchmarks]
models = st.sampled_from(MODELS).map(lambda pair: fitted(*pair))


@st.composite
def cells(draw: st.DrawFn) -> tuple[AcceptanceModel, int, int | None]:
    """A model and a block and tree size that it knows, published or not."""
    model = draw(models)
    block = draw(st.integers(1, largest_block(model.manifest)))
    largest = largest_tree(model.manifest)
    if largest is None:
        return model, block, None
    sizes = st.integers(max(1, model.manifest.drafts(block)), largest)
    return model, block, draw(st.none() | sizes)


@settings(deadline=None)
@given(cells())
def test_survival_falls_from_one_to_zero_and_sums_to_the_tokens(
    cell: tuple[AcceptanceModel, int, int | None],
) -> None:
    """S_j is a survival function, and tokens per step are the guaranteed ones plus its sum."""
    model, block, tree_size = cell
    survival = model.survival(block, tree_size)
    assert len(survival) == model.manifest.drafts(block)
    assert np.all((survival >= 0) & (survival <= 1))
    assert np.all(np.diff(survival) <= 0)
    tokens = model.tokens_per_step(block, tree_size)
    assert tokens == pytest.approx(model.guaranteed_tokens + survival.sum())
    assert model.guaranteed_tokens <= tokens <= model.guaranteed_tokens + len(survival)


@settings(deadline=None)
@given(cells())
def test_the_fit_never_falls_with_block_or_tree(
    cell: tuple[AcceptanceModel, int, int | None],
) -> None:
    """Another draft, or another branch, cannot hurt acceptance; a tree is never below its chain."""
    model, block, tree_size = cell
    tokens = model.fitted_tokens_per_step(block, tree_size)
    if block > 1:
        assert model.fitted_tokens_per_step(block - 1, tree_size) <= tokens
    if tree_size is not None:
        assert model.fitted_tokens_per_step(block) <= tokens
        if tree_size < (largest_tree(model.manifest) or 0):
            assert tokens <= model.fitted_tokens_per_step(block, tree_size + 1)


@settings(deadline=None)
@given(cells(), st.integers(0, 2**32))
def test_draws_have_the_mean_and_variance_of_the_distribution(
    cell: tuple[AcceptanceModel, int, int | None], key: int
) -> None:
    """Within five standard errors, from P(emitted >= guaranteed + j) = S_j."""
    model, block, tree_size = cell
    emitted = model.draw(block, N_STEPS, np.random.default_rng(key), tree_size)
    survival = model.survival(block, tree_size)
    accepted = np.arange(len(survival) + 1)
    chance = -np.diff(np.concatenate([[1.0], survival, [0.0]]))
    mean = accepted @ chance
    centred = accepted - mean
    variance, fourth = centred**2 @ chance, centred**4 @ chance
    assert emitted.dtype == np.int64
    assert emitted.min() >= model.guaranteed_tokens
    assert emitted.max() <= model.guaranteed_tokens + len(survival)
    error = 5 * np.sqrt(variance / N_STEPS) + 1e-9
    assert abs(emitted.mean() - model.tokens_per_step(block, tree_size)) <= error
    # The allowance 40 / N covers the skew of variances of rare events.
    spread = 5 * np.sqrt((fourth - variance**2) / N_STEPS) + 40 / N_STEPS
    assert abs(emitted.var() - variance) <= spread


@settings(deadline=None)
@given(cells(), st.integers(0, 2**32))
def test_draws_depend_on_the_generator_alone(
    cell: tuple[AcceptanceModel, int, int | None], key: int
) -> None:
    """Equal generators give equal draws, and a long draw begins with the short one."""
    model, block, tree_size = cell
    long = model.draw(block, 50, np.random.default_rng(key), tree_size)
    again = model.draw(block, 50, np.random.default_rng(key), tree_size)
    short = model.draw(block, 20, np.random.default_rng(key), tree_size)
    assert np.array_equal(long, again)
    assert np.array_equal(long[:20], short)
