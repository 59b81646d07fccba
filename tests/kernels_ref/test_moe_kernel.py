"""Routing and grouped experts against their naive twins and by hand."""

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.moe import (
    Router,
    grouped_experts,
    naive_grouped_experts,
    naive_route,
    route,
)

ROUTERS = [
    Router(top_k=2),
    Router(top_k=3, renormalise=False),
    Router(top_k=4, score="sigmoid", scaling=2.5),
    Router(top_k=4, score="sigmoid", groups=4, groups_used=2, scaling=2.5),
    Router(top_k=2, groups=8, groups_used=2),
    Router(top_k=16),
]


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("biased", [False, True])
def test_routing_is_its_naive_twin(router: Router, *, biased: bool) -> None:
    """Soft-max or sigmoid, with or without groups and bias: the same experts and weights."""
    logits, bias = torch.randn(20, 16), torch.randn(16) if biased else None
    experts, weights = route(logits, router, bias)
    expected_experts, expected = naive_route(logits, router, bias)

    assert torch.equal(experts, expected_experts)
    assert torch.allclose(weights.double(), expected, rtol=1e-5)


def test_group_limit_by_hand() -> None:
    """The best expert is left out when its group's best two together are not good enough."""
    logits = torch.tensor([[4.0, -9.0, 3.0, 3.0]])
    router = Router(top_k=2, score="sigmoid", groups=2, groups_used=1)
    experts, weights = route(logits, router)

    assert sorted(experts[0].tolist()) == [2, 3]
    assert weights.tolist() == [pytest.approx([0.5, 0.5])]


def test_bias_moves_the_choice_and_not_the_weights() -> None:
    """A biased expert is chosen, and weighs what its own score says."""
    logits, bias = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0.0, 0.0, 5.0])
    router = Router(top_k=1, score="sigmoid", renormalise=False)
    experts, weights = route(logits, router, bias)

    assert experts.tolist() == [[2]]
    assert weights.tolist() == [[pytest.approx(0.5)]]


@pytest.mark.parametrize(
    ("router", "message"),
    [
        (Router(top_k=2, groups=3), "groups must divide the experts, got 3 groups of 8"),
        (Router(top_k=5, groups=4, groups_used=2), "top_k must be 1 to 4, .* got 5"),
        (Router(top_k=0), "top_k must be 1 to 8, .* got 0"),
    ],
)
def test_impossible_routers_are_refused(router: Router, message: str) -> None:
    """A router that cannot choose from the experts at hand says why."""
    with pytest.raises(ValueError, match=message):
        route(torch.zeros(1, 8), router)


@pytest.mark.parametrize("tokens", [0, 1, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_experts_are_their_naive_twin(tokens: int, dtype: torch.dtype) -> None:
    """Sorting visits by expert and back changes nothing, whether or not every expert is hit."""
    router = Router(top_k=2, groups=3, groups_used=2)
    experts, weights = route(torch.randn(tokens, 6), router)
    x, gate_up, down = (torch.randn(s).to(dtype) for s in ((tokens, 8), (6, 10, 8), (6, 8, 5)))
    found = grouped_experts(x, experts, weights, gate_up, down)

    assert found.dtype == dtype
    expected = naive_grouped_experts(x, experts, weights, gate_up, down)
    tolerance = 1e-4 if dtype == torch.float32 else 0.5
    assert torch.allclose(found.double(), expected, atol=tolerance, rtol=1e-2)


def test_grouped_product_of_torch_is_the_loop() -> None:
    """The library's grouped product takes the same layout, empty groups included, as the loop."""
    visits, weights = torch.randn(10, 16).bfloat16(), torch.randn(4, 8, 16).bfloat16()
    ends = torch.tensor([3, 3, 7, 10], dtype=torch.int32)
    found = torch.nn.functional.grouped_mm(visits, weights.transpose(1, 2), offs=ends)

    groups = ((0, 0, 3), (2, 3, 7), (3, 7, 10))
    expected = torch.cat([visits[start:end] @ weights[e].T for e, start, end in groups])
    assert torch.allclose(found, expected, rtol=1e-2, atol=1e-2)
