"""The optimiser: who steps what, at which rate, and that a state restores it exactly."""

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.named_weights import named_tensors
from kernels_ref.training.optimiser import Optimiser
from tests.kernels_ref.training.small import DENSE, EXPERTS, exact, tiny

STEPPED_AS_MATRICES = ("qkv.weight", "output.weight", "gate_up.weight", "down.weight", "router")


def tensors(shape: object = DENSE) -> dict[str, torch.Tensor]:
    """Leaves of a random model in float32."""
    named = named_tensors(exact(EXPERTS if shape is EXPERTS else DENSE).weights, tied=True)
    return {name: t.float().clone().requires_grad_() for name, t in named.items()}


def with_gradients(found: dict[str, torch.Tensor], seed: int) -> None:
    """Random gradients, the same for the same *seed*."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in found.values():
        tensor.grad = torch.randn(tensor.shape, generator=generator)


@pytest.mark.parametrize("shape", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_matrices_have_momentum_and_the_rest_two_moments(shape: object) -> None:
    """Muon steps projections and routers; embedding, norms and stacks of experts are AdamW's."""
    found = tensors(shape)
    optimiser = Optimiser(found, tiny())
    with_gradients(found, 0)
    optimiser.step(0)
    kinds = [{key.split(".")[2] for key in optimiser.state() if key[0] == part} for part in "01"]
    assert kinds == [{"momentum_buffer"}, {"step", "exp_avg", "exp_avg_sq"}]
    matrices = [n for n in found if n.endswith(STEPPED_AS_MATRICES) and n != "lm_head"]
    assert sum(key.startswith("0.") for key in optimiser.state()) == len(matrices)
    sizes = [list(v.shape) for key, v in optimiser.state().items() if key.startswith("0.")]
    assert sizes == [list(found[name].shape) for name in matrices]


def test_the_first_step_is_as_long_as_the_rates_say() -> None:
    """AdamW's first step is the rate, Muon's is an orthogonal matrix times the rate: no decay."""
    recipe = tiny(matrix_learning_rate=0.04, other_learning_rate=0.002, warm_up_steps=4)
    found = tensors()
    before = {name: tensor.detach().clone() for name, tensor in found.items()}
    optimiser = Optimiser(found, recipe)
    with_gradients(found, 1)
    gradients = {n: t.grad.clone() for n, t in found.items() if t.grad is not None}
    optimiser.step(1)
    # The second of four steps of warm-up.
    share = 0.5
    for name, tensor in found.items():
        change = (tensor.detach() - before[name]) / share
        if name.endswith(STEPPED_AS_MATRICES):
            # Newton and Schulz' five iterations leave singular values near one.
            stretched = torch.linalg.svdvals(change) / 0.04
            tall = max(1.0, change.shape[0] / change.shape[1]) ** 0.5
            assert stretched.max() < 1.4 * tall, name
            assert stretched.min() > 0.2, name
        else:
            expected = -0.002 * gradients[name].sign()
            torch.testing.assert_close(change, expected, rtol=1e-2, atol=1e-6)
        assert tensor.grad is None


def test_a_state_restores_the_optimiser_exactly() -> None:
    """Two optimisers, one of them from the other's state, go on bit by bit alike."""
    recipe = tiny()
    first = tensors()
    optimiser = Optimiser(first, recipe)
    for step in range(3):
        with_gradients(first, step)
        optimiser.step(step)
    second = {name: t.detach().clone().requires_grad_() for name, t in first.items()}
    restored = Optimiser(second, recipe)
    restored.restore({key: value.clone() for key, value in optimiser.state().items()})
    without = {name: t.detach().clone().requires_grad_() for name, t in first.items()}
    fresh = Optimiser(without, recipe)
    for step in range(3, 5):
        for found, each in ((first, optimiser), (second, restored), (without, fresh)):
            with_gradients(found, step)
            each.step(step)
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
        assert not torch.equal(tensor, without[name]), name
    state, again = optimiser.state(), restored.state()
    assert list(state) == list(again)
    assert all(torch.equal(state[key], again[key]) for key in state)
