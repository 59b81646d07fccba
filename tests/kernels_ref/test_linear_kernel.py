"""Products against output-by-output sums, and fp8 against the list of its numbers."""

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.kernels.linear import (
    Scaling,
    fp8_available,
    linear,
    multiply,
    naive_linear,
    naive_quantise,
    quantise,
)

SCALINGS: list[Scaling] = ["tensor", "row"]
# Two numbers of e4m3 next to each other differ by an eighth at most.
E4M3_STEP = 1 / 8


def matrices(tokens: int, outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An activation and a weight, the same each time; rows of unlike magnitude."""
    source = torch.Generator().manual_seed(5)
    x = torch.randn(tokens, inputs, generator=source)
    weight = torch.randn(outputs, inputs, generator=source)
    return x * torch.logspace(-2, 2, tokens)[:, None], weight


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 8e-3), (torch.float64, 1e-12)]
)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 33), (16, 48, 64)])
def test_linear_is_its_naive_twin(
    sizes: tuple[int, int, int], dtype: torch.dtype, tolerance: float
) -> None:
    """Sums of products, right to the rounding of the dtype."""
    x, weight = (matrix.to(dtype) for matrix in matrices(*sizes))
    found = linear(x, weight)

    assert found.dtype == dtype
    expected = naive_linear(x, weight)
    error = (found.double() - expected).abs()
    terms = naive_linear(x.abs(), weight.abs())
    assert bool((error <= tolerance * terms).all())


@pytest.mark.parametrize("scaling", SCALINGS)
def test_quantised_numbers_are_the_nearest(scaling: Scaling) -> None:
    """Every number becomes a nearest one of the 253 finite numbers of e4m3, scaled."""
    x, _ = matrices(4, 1, 32)
    quantised = quantise(x, scaling)
    found = quantised.values.double() * quantised.scale.double()
    excess = (found - x).abs() - (naive_quantise(x, scaling) - x).abs()

    # The scale itself is rounded to float32.
    assert bool((excess <= 1e-6 * x.abs()).all())


@pytest.mark.parametrize("scaling", SCALINGS)
def test_largest_number_keeps_its_value(scaling: Scaling) -> None:
    """The largest magnitude meets the largest number of e4m3, 448, and comes back as it was."""
    x = torch.tensor([[1.0, -3.0, 0.5], [0.0, 0.0, 0.0]])
    quantised = quantise(x, scaling)

    assert quantised.values.float().abs().max() == 448
    assert float((quantised.values.float() * quantised.scale)[0, 1]) == pytest.approx(-3.0)
    assert not quantised.values[1].float().any()
    assert quantised.scaling == scaling


@pytest.mark.skipif(not fp8_available(torch.device("cpu")), reason="no fp8 products here")
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("tokens", [1, 5, 16])
def test_fp8_product_is_of_the_quantised_matrices(tokens: int, scaling: Scaling) -> None:
    """An fp8 linear multiplies what quantising leaves, right to the rounding of bf16."""
    x, weight = matrices(tokens, 32, 64)
    x = x.bfloat16()
    found = linear(x[None], quantise(weight, scaling))
    rounded = naive_quantise(x.float(), scaling), naive_quantise(weight, scaling)
    error = (found[0].double() - naive_linear(*rounded)).abs()
    terms = naive_linear(rounded[0].abs(), rounded[1].abs())

    assert found.shape == (1, tokens, 32)
    assert found.dtype == torch.bfloat16
    assert bool((error <= 8e-3 * terms).all())


@pytest.mark.parametrize("scaling", SCALINGS)
def test_fp8_is_close_to_the_exact_product(scaling: Scaling) -> None:
    """The loss stays below what rounding both factors to e4m3 can do."""
    x, weight = matrices(1, 32, 64)
    x = x.bfloat16()
    error = (linear(x, quantise(weight, scaling)).double() - naive_linear(x, weight)).abs()

    assert bool((error <= E4M3_STEP * naive_linear(x.abs(), weight.abs())).all())


def test_fp8_on_a_gpu_depends_on_its_generation() -> None:
    """No fp8 on a device that is neither a CPU nor a GPU of that kind."""
    assert fp8_available(torch.device("cpu"))
    assert not fp8_available(torch.device("meta"))


def test_bad_sizes_are_refused() -> None:
    """What disagrees is told with its value."""
    x, weight = matrices(2, 32, 64)
    with pytest.raises(ValueError, match="x has 63 inputs, the weight 64"):
        linear(x[:, :63], weight)
    with pytest.raises(ValueError, match=r"not torch\.float32"):
        linear(x, quantise(weight, "row"))
    with pytest.raises(ValueError, match="multiples of 16, got 31"):
        linear(x.bfloat16(), quantise(weight[:31], "row"))
    with pytest.raises(ValueError, match="x is scaled by row, the weight by tensor"):
        multiply(quantise(x, "row"), quantise(weight, "tensor"), torch.bfloat16)
