"""Gated adapters against their naive twins."""

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.lora import (
    add_gated_lora,
    gated_lora,
    naive_add_gated_lora,
    naive_gated_lora,
)

GATE = torch.tensor([0, 1, 1, 0, 1])


def test_adapter_is_its_naive_twin() -> None:
    """The narrow products are the adapter's whole matrix, for the tokens that are on."""
    x, down, up = torch.randn(5, 12), torch.randn(4, 12), torch.randn(7, 4)

    found = gated_lora(x, down, up, GATE, 2.0)
    assert torch.allclose(found.double(), naive_gated_lora(x, down, up, GATE, 2.0), atol=1e-4)


def test_a_token_that_is_off_is_untouched() -> None:
    """Clean positions get exactly what the base gives, bit for bit."""
    x, down, up, base = (torch.randn(s) for s in ((5, 12), (4, 12), (7, 4), (5, 7)))
    found = add_gated_lora(base.clone(), x, down, [up], GATE, 2.0)

    assert torch.equal(found[GATE == 0], base[GATE == 0])
    assert not torch.equal(found[GATE == 1], base[GATE == 1])


def test_adapters_of_a_fused_linear_are_their_naive_twin() -> None:
    """Query, key and value adapters add to their own columns of the fused output."""
    x, down, base = torch.randn(5, 12), torch.randn(3 * 4, 12), torch.randn(5, 14)
    ups = [torch.randn(columns, 4) for columns in (8, 3, 3)]
    expected = naive_add_gated_lora(base, x, down, ups, GATE, 0.5)
    found = add_gated_lora(base, x, down, ups, GATE, 0.5)

    assert found is base
    assert torch.allclose(found.double(), expected, atol=1e-4)


def test_bf16_stays_bf16() -> None:
    """The adapter computes in the dtype of the activations."""
    x, down, up = (torch.randn(s).bfloat16() for s in ((5, 12), (4, 12), (7, 4)))

    assert gated_lora(x, down, up, GATE, 2.0).dtype == torch.bfloat16
