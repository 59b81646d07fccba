"""Operands that are cold: side by side, enough of them, and never more than allowed."""

import math

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels_ref.profiling.pool import MOST_COPIES, SPREAD, DoesNotFitError, Pool

CPU = torch.device("cpu")
DTYPES = st.sampled_from([torch.float32, torch.bfloat16])
SHAPES = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


def pool(working_set_bytes: float, most_bytes: float = 1e6, seed: int = 0) -> Pool:
    """A pool on the CPU."""
    return Pool(CPU, working_set_bytes=working_set_bytes, most_bytes=most_bytes, seed=seed)


@given(SHAPES, DTYPES, st.integers(0, 400_000))
def test_copies_do_not_overlap(shape: tuple[int, ...], dtype: torch.dtype, size: int) -> None:
    """What is written into one copy is in no other, and every copy has the shape asked for."""
    copies = pool(size).copies(shape, dtype)
    for index, copy in enumerate(copies):
        copy.fill_(index % 251)
    for index, copy in enumerate(copies):
        assert copy.shape == shape
        assert bool((copy == index % 251).all())


@given(SHAPES, DTYPES, st.integers(0, 2_000_000), st.integers(200_000, 1_000_000))
def test_copies_cover_the_working_set_within_the_limit(
    shape: tuple[int, ...], dtype: torch.dtype, size: int, most: int
) -> None:
    """Together they are the working set, or what is allowed less one copy; never above it."""
    one_bytes = -(-math.prod(shape) // 64) * 64 * dtype.itemsize
    if one_bytes > most:
        return
    count = len(pool(size, most).copies(shape, dtype))
    assert one_bytes * count <= most
    assert one_bytes * count >= min(size, most - one_bytes) or count == MOST_COPIES


def test_copies_by_hand() -> None:
    """100 floats take 128 places, 512 bytes: a working set of 4000 bytes is 8 of them."""
    copies = pool(4000).copies((10, 10), torch.float32)
    assert len(copies) == 8
    first = copies[0].data_ptr()
    assert [copy.data_ptr() - first for copy in copies] == [512 * i for i in range(8)]


def test_tiny_operands_have_a_limit_of_their_own() -> None:
    """A copy of a few bytes is not repeated a million times."""
    assert len(pool(1e9, 1e9).copies((1,), torch.bfloat16)) == MOST_COPIES


def test_an_operand_that_does_not_fit_says_both_sizes() -> None:
    """Two gigabytes where one is allowed; nothing is allocated to find out."""
    with pytest.raises(DoesNotFitError, match=r"needs 2\.00 GB, allowed 1\.00 GB"):
        pool(0, 1e9).copies((500_000_000,), torch.float32)


def test_one_operand_fits_exactly() -> None:
    """As large as allowed is allowed."""
    (only,) = pool(1e6, 256).copies((64,), torch.float32)
    assert only.shape == (64,)


def test_operands_are_random_and_small() -> None:
    """Like weights: no zeros that a library may skip, no numbers that overflow."""
    (copy,) = pool(0, 1e7).copies((1_200_000,), torch.float32)
    assert float(copy.std()) == pytest.approx(SPREAD, rel=0.02)
    assert abs(float(copy.mean())) < SPREAD / 100
    assert float((copy == 0).float().mean()) < 1e-3


def test_the_pool_goes_on_with_other_sizes_and_types() -> None:
    """Growing, shrinking and changing the type each give whole tensors of finite numbers."""
    cut = pool(10_000)
    for shape, dtype in (
        ((8,), torch.float32),
        ((50, 50), torch.float32),
        ((3,), torch.float32),
        ((7, 7), torch.bfloat16),
        ((2, 3, 4), torch.float32),
    ):
        copies = cut.copies(shape, dtype)
        assert {(copy.dtype, tuple(copy.shape)) for copy in copies} == {(dtype, shape)}
        assert all(bool(copy.isfinite().all()) for copy in copies)


def test_the_pool_works_again_after_its_release() -> None:
    """Giving memory back is not the end."""
    cut = pool(10_000)
    before = len(cut.copies((64,), torch.float32))
    cut.release()
    assert len(cut.copies((64,), torch.float32)) == before


def test_one_is_a_tensor_of_its_own_that_the_seed_fixes() -> None:
    """Hot operands share nothing with the copies, and are the same in every session."""
    cut = pool(1000)
    copies = cut.copies((8,), torch.float32)
    one = cut.one((8,), torch.float32)
    one.fill_(3.0)
    assert all(bool((copy != 3.0).all()) for copy in copies)
    first, again = (pool(0, seed=5).one((9, 2), torch.bfloat16) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, pool(0, seed=6).one((9, 2), torch.bfloat16))
