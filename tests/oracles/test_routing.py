"""Expected distinct experts against drawing them."""

import numpy as np
import numpy.typing as npt
import pytest

from simulator.routing import Routing

EXPERTS, TOP_K = 256, 8
TRIALS = 400

FloatArray = npt.NDArray[np.float64]


def inclusion(weights: FloatArray) -> FloatArray:
    """Chances min(1, c weight) that sum to TOP_K, with c found by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if np.minimum(1, middle * weights).sum() < TOP_K:
            low = middle
        else:
            high = middle
    return np.minimum(1, low * weights)


def draw(chances: FloatArray, tokens: int, generator: np.random.Generator) -> float:
    """Mean distinct experts that *tokens* hit, each taking TOP_K different ones.

    Systematic sampling over shuffled experts includes each with exactly its chance: the chances
    are laid end to end, and those under TOP_K points at unit distance are taken.
    """
    found = []
    for _ in range(TRIALS):
        hit = np.zeros(EXPERTS, dtype=bool)
        for _ in range(tokens):
            order = generator.permutation(EXPERTS)
            edges = np.cumsum(chances[order])
            taken = np.searchsorted(edges, generator.random() + np.arange(TOP_K))
            hit[order[np.minimum(taken, EXPERTS - 1)]] = True
        found.append(hit.sum())
    return float(np.mean(found))


def test_uniform_matches_independent_draws() -> None:
    """E (1 - (1 - k/E)^T) is the mean of drawing k of E experts for T tokens."""
    generator = np.random.default_rng(1)
    tokens = 32
    picks = generator.random((TRIALS, tokens, EXPERTS)).argpartition(TOP_K, axis=2)[..., :TOP_K]
    distinct = [len(np.unique(trial)) for trial in picks]

    expected = float(Routing("uniform").distinct(EXPERTS, TOP_K, np.array(float(tokens))))
    error = float(np.std(distinct)) / np.sqrt(TRIALS)
    assert abs(np.mean(distinct) - expected) < 4 * error


@pytest.mark.parametrize(("tokens", "experts"), [(32, 163), (64, 222)])
def test_a_block_hits_most_experts(tokens: int, experts: int) -> None:
    """Of 256 experts, top 8, 32 tokens hit 163 and 64 tokens 222, to within one."""
    distinct = Routing().distinct(EXPERTS, TOP_K, np.array([float(tokens)]))

    assert distinct[0] == pytest.approx(experts, abs=1)


@pytest.mark.parametrize("exponent", [0.5, 1.0])
@pytest.mark.parametrize("tokens", [2, 16])
def test_zipf_matches_draws_with_those_chances(exponent: float, tokens: int) -> None:
    """The sum of 1 - (1 - p)^T is the mean of drawing, where p falls with rank and is at most 1."""
    chances = inclusion(np.arange(1, EXPERTS + 1, dtype=float) ** -exponent)
    drawn = draw(chances, tokens, np.random.default_rng(7))

    routing = Routing("zipf", exponent=exponent)
    expected = float(routing.distinct(EXPERTS, TOP_K, np.array(float(tokens))))
    # The number of distinct experts of a trial spreads by a few.
    assert drawn == pytest.approx(expected, abs=4 * 3 / np.sqrt(TRIALS))


def test_zipf_without_slope_is_uniform() -> None:
    """Equal popularity is the uniform case."""
    tokens = np.array([1.0, 3.0, 40.0])

    flat = Routing("zipf", exponent=0.0).distinct(EXPERTS, TOP_K, tokens)
    assert flat == pytest.approx(Routing().distinct(EXPERTS, TOP_K, tokens), rel=1e-12)


def test_one_token_hits_top_k_experts() -> None:
    """Whatever the popularity, one token visits exactly its k experts."""
    one = np.array([1.0])
    for routing in (Routing(), Routing("zipf"), Routing("balanced")):
        assert routing.distinct(EXPERTS, TOP_K, one)[0] == pytest.approx(TOP_K, rel=1e-12)


def test_balanced_visits_experts_in_turn() -> None:
    """T tokens visit 8 T experts until all 256 have been."""
    tokens = np.array([0.0, 1.0, 31.0, 32.0, 33.0])

    distinct = Routing("balanced").distinct(EXPERTS, TOP_K, tokens)
    assert distinct.tolist() == [0, 8, 248, 256, 256]


def test_fixed_is_fixed_but_for_tiny_batches() -> None:
    """A given number of experts, though T tokens cannot visit more than 8 T."""
    tokens = np.array([0.0, 1.0, 100.0])

    distinct = Routing("fixed", active_experts=60.0).distinct(EXPERTS, TOP_K, tokens)
    assert distinct.tolist() == [0, 8, 60]
