"""Norm, rotary and SwiGLU against their naive twins and against what must hold of them."""

import math

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.rms_norm import (
    add_rms_norm,
    naive_add_rms_norm,
    naive_rms_norm,
    rms_norm,
)
from kernels_ref.kernels.rotary import naive_rotary, rotary
from kernels_ref.kernels.swiglu import naive_swiglu, swiglu

# One unit in the last place of float32 and of bfloat16, times a few operations.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE)


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether *found* is *expected* up to the rounding of its dtype."""
    tolerance = TOLERANCE[found.dtype]
    return torch.allclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 8, 65])
def test_norm_is_its_naive_twin(dtype: torch.dtype, width: int) -> None:
    """Rows are divided by their root mean square and weighted, whatever their width."""
    x, weight = torch.randn(2, 3, width).to(dtype), torch.randn(width).to(dtype)

    assert rms_norm(x, weight).dtype == dtype
    assert close(rms_norm(x, weight), naive_rms_norm(x, weight))


def test_norm_leaves_unit_root_mean_square() -> None:
    """With weights of one, every row comes out with mean square one, however large it was."""
    out = rms_norm(1000 * torch.randn(5, 64), torch.ones(64))

    assert out.square().mean(dim=-1).tolist() == pytest.approx([1.0] * 5, rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_add_norm_is_its_naive_twin(dtype: torch.dtype) -> None:
    """The sum and its normalisation both come back, and the inputs stay as they were."""
    x, residual, weight = (torch.randn(4, 32).to(dtype), torch.randn(4, 32).to(dtype), None)
    weight = torch.randn(32).to(dtype)
    before = x.clone(), residual.clone()
    out, total = add_rms_norm(x, residual, weight)
    expected, expected_total = naive_add_rms_norm(x, residual, weight)

    assert close(out, expected)
    assert close(total, expected_total)
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_rotary_is_its_naive_twin(
    dtype: torch.dtype, rotary_dim: int | None, *, normed: bool
) -> None:
    """Pairs turn by their angle at ragged absolute positions, the rest of a head stays."""
    heads, positions = torch.randn(2, 3, 4, 8).to(dtype), torch.tensor([[0, 1, 2], [70, 71, 72]])
    weight = torch.randn(4, 8).to(dtype) if normed else None
    found = rotary(heads, positions, weight, theta=1e4, rotary_dim=rotary_dim)

    assert found.dtype == dtype
    expected = naive_rotary(heads, positions, weight, theta=1e4, rotary_dim=rotary_dim)
    assert torch.allclose(found.double(), expected, rtol=1e-2, atol=TOLERANCE[dtype] * 20)


def test_rotary_keeps_lengths_and_depends_on_distance_alone() -> None:
    """Heads keep their norm, and the product of two depends on how far apart they stand."""
    query, key = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def product(at: int, other: int) -> float:
        places = torch.tensor([[at]]), torch.tensor([[other]])
        return float((rotary(query, places[0]) * rotary(key, places[1])).sum())

    assert float(rotary(query, torch.tensor([[9]])).norm()) == pytest.approx(float(query.norm()))
    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-4)
    assert product(5, 2) != pytest.approx(product(5, 3), abs=1e-3)


def test_rotary_by_hand() -> None:
    """One pair at position 1 turns by one radian."""
    heads = torch.tensor([[[[1.0, 0.0]]]])

    found = rotary(heads, torch.tensor([[1]])).flatten().tolist()
    assert found == pytest.approx([math.cos(1), math.sin(1)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu_is_its_naive_twin(dtype: torch.dtype) -> None:
    """The first half gates the second."""
    gate_up = torch.randn(2, 3, 20).to(dtype)

    assert swiglu(gate_up).shape == (2, 3, 10)
    assert close(swiglu(gate_up), naive_swiglu(gate_up))


def test_swiglu_by_hand() -> None:
    """A gate of zero closes, and a large one lets the other half times itself through."""
    found = swiglu(torch.tensor([[0.0, 50.0, 3.0, 2.0]]))

    assert found.tolist() == [[0.0, pytest.approx(100.0)]]
