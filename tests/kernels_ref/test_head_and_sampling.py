"""The LM head, its confidence and sampling against their naive twins and closed forms."""

import math
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.lm_head import (
    confidence,
    lm_head,
    naive_confidence,
    naive_lm_head,
)
from kernels_ref.kernels.sampling import (
    naive_sample,
    naive_sampling_probabilities,
    sample,
    sampling_probabilities,
)

SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.5},
    {"top_k": 1},
    {"top_k": 5},
    {"top_k": 100},
    {"top_p": 0.7},
    {"top_p": 1.0},
    {"temperature": 1.5, "top_k": 9, "top_p": 0.6},
]


def test_lm_head_is_its_naive_twin() -> None:
    """Every logit is the product of a state and a token's row."""
    hidden, weight = torch.randn(3, 16), torch.randn(11, 16)

    assert torch.allclose(
        lm_head(hidden, weight).double(), naive_lm_head(hidden, weight), atol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_confidence_is_its_naive_twin(dtype: torch.dtype) -> None:
    """The most likely token and its probability, in float32 whatever the logits are."""
    logits = torch.randn(6, 50).mul(5).to(dtype)
    token, probability = confidence(logits)
    expected_token, expected = naive_confidence(logits)

    assert probability.dtype == torch.float32
    assert torch.equal(logits.gather(1, token[:, None]), logits.gather(1, expected_token[:, None]))
    assert torch.allclose(probability.double(), expected, rtol=1e-5)


def test_confidence_survives_large_logits() -> None:
    """Two equal logits of ten thousand share the probability; nothing overflows."""
    token, probability = confidence(torch.tensor([[1e4, 1e4, 0.0], [0.0, 1e4, 0.0]]))

    assert probability.tolist() == pytest.approx([0.5, 1.0])
    assert int(token[1]) == 1


@pytest.mark.parametrize("setting", SETTINGS)
def test_probabilities_are_their_naive_twin(setting: dict[str, Any]) -> None:
    """Temperature, then top-k, then top-p, on rows that keep different numbers of tokens."""
    logits = torch.randn(8, 40) * torch.linspace(0.1, 6, 8)[:, None]
    found = sampling_probabilities(logits, **setting)

    expected = naive_sampling_probabilities(logits, **setting)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-7)
    assert torch.equal(found > 0, expected > 0)


def test_probabilities_by_hand() -> None:
    """Of 0.5, 0.3, 0.15, 0.05 top-k 3 leaves 95 %, and 0.8 of that needs the first two."""
    logits = torch.tensor([[0.3, 0.05, 0.5, 0.15]]).log()

    three = sampling_probabilities(logits, top_k=3)
    assert three.tolist() == [pytest.approx([0.3 / 0.95, 0, 0.5 / 0.95, 0.15 / 0.95])]
    two = sampling_probabilities(logits, top_k=3, top_p=0.8)
    assert two.tolist() == [pytest.approx([0.3 / 0.8, 0, 0.5 / 0.8, 0])]


def test_equal_logits_at_the_edge_keep_the_first() -> None:
    """Top-k keeps k tokens even where the next one is as likely."""
    found = sampling_probabilities(torch.zeros(1, 5), top_k=2)

    assert found.tolist() == [[0.5, 0.5, 0.0, 0.0, 0.0]]


def test_greedy_takes_the_largest_logit() -> None:
    """Temperature 0 draws nothing and needs no generator."""
    logits = torch.randn(7, 30)

    assert torch.equal(sample(logits, temperature=0), logits.argmax(dim=-1))
    assert torch.equal(naive_sample(logits, temperature=0), logits.argmax(dim=-1))


@pytest.mark.parametrize("draw", [sample, naive_sample])
def test_draws_follow_the_probabilities(draw: object) -> None:
    """Frequencies of many draws lie within five standard errors of the probabilities."""
    assert callable(draw)
    n = 4000
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0]).expand(n, 4)
    generator = torch.Generator().manual_seed(5)
    counts = draw(logits, top_k=3, generator=generator).bincount(minlength=4)

    weights = [math.e, 1.0, 0.0, math.e**2]
    for count, weight in zip(counts.tolist(), weights, strict=True):
        chance = weight / sum(weights)
        assert abs(count / n - chance) <= 5 * math.sqrt(chance * (1 - chance) / n)


def test_a_seed_fixes_the_draws() -> None:
    """Equal generators give equal tokens, and another seed others."""
    logits = torch.randn(64, 100)
    first, again, other = (
        sample(logits, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"temperature": -1.0}, "temperature must be .* got -1.0"),
        ({"temperature": math.nan}, "temperature must be .* got nan"),
        ({"top_k": 0}, "top_k must be .* got 0"),
        ({"top_p": 0.0}, "top_p must be .* got 0.0"),
        ({"top_p": 1.1}, "top_p must be .* got 1.1"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    """A setting that leaves no token is an error that says so."""
    with pytest.raises(ValueError, match=message):
        sampling_probabilities(torch.zeros(1, 3), **setting)
