"""Each generator of arrivals alone against its law, before any queue can hide an error.

Seeds are fixed; a correct generator fails a bound here for one seed in 10,000 (|z| < 3.9, and
p > 1e-4), so that a failure means that the law is broken.
"""

import math

import numpy as np
import pytest
from scipy import stats

from tests.simulator.workloads.open_loads import LENGTHS, gaps_s, load, requests

N = 20_000
MOST_Z = 3.9
LEAST_P = 1e-4
SEEDS = (1, 2, 3)
CVS = (0.3, 1.0, 2.5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [0.5, 40.0])
def test_poisson_gaps_are_exponential(rate: float, seed: int) -> None:
    """Mean, variance and distribution of the gaps are those of an exponential of that rate."""
    gaps = gaps_s("poisson", N, seed, rate_per_s=rate)

    law = stats.expon(scale=1 / rate)
    assert abs(gaps.mean() - 1 / rate) < MOST_Z / rate / math.sqrt(N)
    # The variance of a sample variance of exponentials is 8 / (rate^4 n).
    assert abs(gaps.var() - law.var()) < MOST_Z * math.sqrt(8 / N) / rate**2
    assert stats.kstest(gaps, law.cdf).pvalue > LEAST_P


@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_counts_are_poisson(seed: int) -> None:
    """Arrivals in windows of equal length have a Poisson distribution, its variance its mean."""
    rate, windows = 6.0, 3000
    made = requests(load("poisson", rate_per_s=rate, duration_s=float(windows), **LENGTHS), seed)

    counts = np.bincount([int(request.arrival_s) for request in made], minlength=windows)
    assert abs(counts.mean() - rate) < MOST_Z * math.sqrt(rate / windows)
    # Of the index of dispersion, (windows - 1) var / mean is chi-square distributed.
    dispersion = counts.var(ddof=1) / counts.mean() * (windows - 1)
    assert LEAST_P / 2 < stats.chi2(windows - 1).cdf(dispersion) < 1 - LEAST_P / 2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cv", CVS)
def test_gamma_gaps_are_gamma(cv: float, seed: int) -> None:
    """Mean, coefficient of variation and distribution are those of a gamma of shape cv^-2."""
    rate = 5.0
    gaps = gaps_s("gamma", N, seed, rate_per_s=rate, cv=cv)

    law = stats.gamma(cv**-2, scale=cv**2 / rate)
    assert (law.mean(), law.std()) == pytest.approx((1 / rate, cv / rate))
    assert abs(gaps.mean() - 1 / rate) < MOST_Z * cv / rate / math.sqrt(N)
    # A sample variance has the variance (m4 - s^4) / n; the excess kurtosis of a gamma is 6 cv^2.
    spread = law.var() * math.sqrt((2 + 6 * cv**2) / N)
    assert abs(gaps.var() - law.var()) < MOST_Z * spread
    assert stats.kstest(gaps, law.cdf).pvalue > LEAST_P


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "cv"), [("poisson", {}), *(("gamma", {"cv": cv}) for cv in CVS)])
def test_gaps_are_independent(kind: str, cv: dict[str, float], seed: int) -> None:
    """Ranks of neighbouring gaps, and of gaps a chunk apart, are not correlated."""
    gaps = stats.rankdata(gaps_s(kind, N, seed, rate_per_s=1.0, **cv))

    for lag in (1, 2, 4096):
        correlation = np.corrcoef(gaps[:-lag], gaps[lag:])[0, 1]
        assert abs(correlation) < MOST_Z / math.sqrt(N - lag)


def test_a_gamma_of_cv_one_is_poisson() -> None:
    """With a coefficient of variation of 1 the two laws are one."""
    poisson = gaps_s("poisson", N, 7, rate_per_s=3.0)
    gamma = gaps_s("gamma", N, 8, rate_per_s=3.0, cv=1.0)

    assert stats.ks_2samp(poisson, gamma).pvalue > LEAST_P


@pytest.mark.parametrize("rate", [0.3, 8.0, 1e6])
def test_constant_arrivals_are_even(rate: float) -> None:
    """Request k arrives at k / rate, rounded once, however many are before it."""
    made = requests(load("constant", rate_per_s=rate, requests=10_000, **LENGTHS))

    assert [request.arrival_s for request in made] == [index / rate for index in range(10_000)]


def test_drawn_lengths_are_of_the_table(tmp_path: object) -> None:
    """Each row of a table is drawn as often as any other, prompt and output together."""
    path = f"{tmp_path}/lengths.csv"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 (a path as scenarios have it)
        file.write(
            "prompt_tokens,output_tokens\n" + "".join(f"{n},{n * n}\n" for n in range(1, 41))
        )
    parameters = load("poisson", rate_per_s=1.0, requests=N, lengths=path)

    made = requests(parameters, 5)

    assert all(request.output_tokens == request.prompt_tokens**2 for request in made)
    counts = np.bincount([request.prompt_tokens for request in made], minlength=41)[1:]
    assert stats.chisquare(counts).pvalue > LEAST_P


def test_groups_are_drawn_evenly() -> None:
    """Each group of a shared prefix has as many requests as any other, in the mean."""
    shared = {"shared_prefix_tokens": 50, "prefix_groups": 20}
    made = requests(load("poisson", rate_per_s=1.0, requests=N, **LENGTHS, **shared), 5)

    counts = np.bincount([request.prefix[0] for request in made])
    assert len(counts) == 20
    assert stats.chisquare(counts).pvalue > LEAST_P


def test_streams_do_not_depend_on_each_other(tmp_path: object) -> None:
    """Arrivals, lengths and groups of one seed are not correlated, though one seed keys them."""
    path = f"{tmp_path}/lengths.csv"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write("prompt_tokens,output_tokens\n" + "".join(f"{n},1\n" for n in range(1, 1001)))
    fields = {"shared_prefix_tokens": 1, "prefix_groups": 1000}
    made = requests(load("poisson", rate_per_s=1.0, requests=N, lengths=path, **fields), 3)

    columns = np.array(
        [
            np.diff([request.arrival_s for request in made], prepend=0.0),
            [request.prompt_tokens for request in made],
            [request.prefix[0] for request in made],
        ]
    )
    correlations = np.corrcoef(columns)[np.triu_indices(3, 1)]
    assert abs(correlations).max() < MOST_Z / math.sqrt(N)
