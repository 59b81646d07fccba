"""Paces against what their definitions say."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import library
from simulator.pace import AcceptancePace, ConstantPace, Pace
from simulator.request import Request
from traces.acceptance import acceptance_model

# Eighths are exact in binary, so that the ceiling can be taken of the exact quotient.
means = st.integers(1, 160).map(lambda eighths: Fraction(eighths, 8))
counts = st.integers(1, 3000)


def emitted_by(pace: Pace, n_tokens: int, index: int = 0) -> npt.NDArray[np.int64]:
    """Tokens at each step of a request that has *n_tokens* behind the prefill's one."""
    return pace.steps(Request(index, 5, 1 + n_tokens)).emitted_tokens


@given(n=counts, mean=means)
def test_a_constant_pace_takes_the_papers_number_of_steps(n: int, mean: Fraction) -> None:
    """To emit n tokens at tau a step takes ceil(n / tau) steps, and all come out."""
    emitted = emitted_by(ConstantPace(float(mean)), n)

    assert len(emitted) == math.ceil(n / mean)
    assert emitted.sum() == n


@given(n=counts, mean=means)
def test_a_constant_pace_is_even(n: int, mean: Fraction) -> None:
    """After s steps floor(s tau) tokens are out, so no step is more than one token off."""
    emitted = emitted_by(ConstantPace(float(mean)), n)

    out = [min(n, math.floor(s * mean)) for s in range(1, len(emitted))]
    assert np.cumsum(emitted)[:-1].tolist() == out
    assert set(emitted[:-1].tolist()) <= {math.floor(mean), math.ceil(mean)}


@pytest.mark.parametrize(
    ("n", "mean", "emitted"),
    [(7, 1.0, [1] * 7), (7, 2.5, [2, 3, 2]), (8, 4.0, [4, 4]), (3, 0.5, [0, 1, 0, 1, 0, 1])],
)
def test_constant_paces_by_hand(n: int, mean: float, emitted: list[int]) -> None:
    """A few sequences written out."""
    assert emitted_by(ConstantPace(mean), n).tolist() == emitted


@pytest.mark.parametrize("mean", [1.1, 2.3, 3.7, 0.1])
def test_decimal_paces_do_not_gain_a_step_by_rounding(mean: float) -> None:
    """Ten times a decimal mean is a whole number of tokens and takes ten steps."""
    emitted = emitted_by(ConstantPace(mean), round(10 * mean))

    assert len(emitted) == 10


def test_nothing_takes_no_steps() -> None:
    """No tokens to emit, no steps."""
    assert emitted_by(ConstantPace(2.0), 0).tolist() == []


@pytest.mark.parametrize(
    ("trace", "block", "tree_size"),
    [
        ("uno-qwen3-8b-t1", 4, None),
        ("uno-qwen3-8b-t0", 16, 32),
        ("dflash-qwen3-8b-t0", 16, None),
        ("eagle3-qwen3-8b-t1", 8, 60),
    ],
)
def test_an_acceptance_pace_draws_the_published_mean(
    trace: str, block: int, tree_size: int | None
) -> None:
    """Mean tokens per step over requests lie within four standard errors of the published."""
    model = acceptance_model(library.TRACES.get(trace), "GSM8K")
    pace = AcceptancePace(model, block, tree_size)
    published = {
        (cell.block, cell.tree_size): cell.tokens_per_step
        for cell in library.TRACES.get(trace).acceptance
        if cell.benchmark == "GSM8K"
    }[block, tree_size]

    # The last step of a request is cut short.
    drawn = np.concatenate([emitted_by(pace, 1000, request)[:-1] for request in range(40)])
    error = float(drawn.std()) / math.sqrt(len(drawn))
    # Dropping last steps, which are long ones more often than not, biases by less than a step.
    assert float(drawn.mean()) == pytest.approx(published, abs=4 * error + published / 200)
    assert pace.mean_tokens == published


@given(n=st.integers(1, 400), request=st.integers(0, 50))
def test_an_acceptance_pace_emits_everything(n: int, request: int) -> None:
    """The tokens of a request come out exactly, at least the guaranteed ones in each whole step."""
    emitted = emitted_by(UNO, n, request)

    assert emitted.sum() == n
    assert (emitted[:-1] >= UNO.model.guaranteed_tokens).all()
    assert (emitted >= 1).all()


UNO = AcceptancePace(acceptance_model(library.TRACES.get("uno-qwen3-8b-t1")), 8)
