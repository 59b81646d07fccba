"""Tallies against numpy on the same values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.tally import BUFFER_VALUES, PERCENTILES, RELATIVE_ERROR, Tally, distribution


def tallied(values: Any, most_exact: int = 10**9, pieces: int = 7) -> Tally:
    """A tally of *values*, in so many pieces."""
    tally = Tally(most_exact)
    for part in np.array_split(np.asarray(values, dtype=float), pieces):
        tally.add(part)
    return tally


def expected(values: Any) -> dict[str, float]:
    """Numpy's mean and percentiles."""
    levels = {f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES}
    return {"mean": float(np.mean(values))} | levels


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.integers(1, 5))
def test_it_is_the_distribution_of_its_values(values: list[float], pieces: int) -> None:
    """However the values come, mean and percentiles are numpy's, least and most their own."""
    tally = tallied(values, pieces=pieces)

    assert tally.distribution() == pytest.approx(expected(values), rel=1e-12)
    assert (tally.least, tally.most, len(tally)) == (min(values), max(values), len(values))
    assert tally.is_exact


@given(st.lists(st.floats(1e-6, 1e6), max_size=40), st.integers(1, 60))
def test_zeros_count_as_values(values: list[float], zeros: int) -> None:
    """So many zeros besides are the same as if they had been added."""
    found = tallied(values).distribution(zeros=zeros)

    assert found == pytest.approx(expected([0.0] * zeros + values), rel=1e-9, abs=1e-12)


LAWS: dict[str, Callable[[np.random.Generator, int], npt.NDArray[np.float64]]] = {
    "exponential": lambda generator, n: generator.exponential(0.02, n),
    "two clusters": lambda generator, n: np.where(generator.random(n) < 0.93, 0.01, 3.0),
    "nine decades": lambda generator, n: 10 ** generator.uniform(-6, 3, n),
    "with zeros": lambda generator, n: np.maximum(0, generator.normal(0.1, 0.1, n)),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("zeros", [0, 12_345])
def test_many_values_keep_their_percentiles_to_a_thousandth(law: str, zeros: int) -> None:
    """Beyond the limit percentiles are off by a thousandth at most; the mean is still exact."""
    values = LAWS[law](np.random.default_rng(5), 5 * BUFFER_VALUES + 17)
    tally = tallied(values, most_exact=1000)
    wanted = expected(np.concatenate([np.zeros(zeros), values]))

    found = tally.distribution(zeros=zeros)

    assert not tally.is_exact
    assert found is not None
    assert found["mean"] == pytest.approx(wanted["mean"], rel=1e-12)
    for level, value in wanted.items():
        assert found[level] == pytest.approx(value, rel=1.01 * RELATIVE_ERROR, abs=2e-9), level
    assert (tally.least, tally.most) == (values.min(), values.max())
    assert tally.total == pytest.approx(values.sum(), rel=1e-12)


def test_a_full_tally_takes_no_more_memory() -> None:
    """Ten times the values are the same number of buckets."""
    values = np.random.default_rng(1).exponential(1.0, 3000)
    tally = Tally(most_exact=2000)

    tally.add(values)
    assert not tally.is_exact
    before = kept_bytes(tally)
    for _ in range(10):
        tally.add(values)

    assert len(tally) == 11 * len(values)
    assert kept_bytes(tally) == before


def kept_bytes(tally: Tally) -> int:
    """Bytes of all arrays that *tally* holds."""
    assert not tally.is_exact
    parts = [part for value in vars(tally).values() for part in _arrays(value)]
    return sum(part.nbytes for part in parts)


def _arrays(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    return (
        [part for part in value if isinstance(part, np.ndarray)] if isinstance(value, list) else []
    )


def test_nothing_has_no_distribution() -> None:
    """Without values there is no mean, least or most; zeros alone are zero."""
    tally = Tally()

    assert distribution([]) is None
    assert (tally.distribution(), tally.least, tally.most) == (None, None, None)
    assert tally.distribution(zeros=3) == {"mean": 0, "p50": 0, "p90": 0, "p95": 0, "p99": 0}
