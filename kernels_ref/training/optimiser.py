"""Muon on matrices, AdamW on the rest; their state as named tensors."""

from collections.abc import Mapping

import torch

from kernels_ref.training.recipe import Course

MATRIX = 2


class Optimiser:
    """Steps named tensors in place, by the rates of a recipe."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], recipe: Course) -> None:
        """*tensors* require gradients; the embedding is not a matrix to Muon."""
        matrices = [
            tensor
            for name, tensor in tensors.items()
            if tensor.ndim == MATRIX and name not in {"embedding", "lm_head"} and "norm" not in name
        ]
        chosen = {id(tensor) for tensor in matrices}
        others = [tensor for tensor in tensors.values() if id(tensor) not in chosen]
        self._recipe = recipe
        parts: list[tuple[torch.optim.Optimizer, float]] = []
        if matrices:
            rate = recipe.matrix_learning_rate
            parts.append((torch.optim.Muon(matrices, lr=rate, weight_decay=0.0), rate))
        if others:
            rate = recipe.other_learning_rate
            parts.append((torch.optim.AdamW(others, lr=rate, weight_decay=0.0), rate))
        self._parts = tuple(parts)

    def step(self, step: int) -> None:
        """Apply the gradients at the rate of *step*, and clear them."""
        for optimiser, rate in self._parts:
            for group in optimiser.param_groups:
                group["lr"] = rate * self._recipe.learning_rate_share(step)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def state(self) -> dict[str, torch.Tensor]:
        """Moments and counts, by part, place and name."""
        return {
            f"{part}.{place}.{name}": value
            for part, (optimiser, _) in enumerate(self._parts)
            for place, tensor in enumerate(_tensors(optimiser))
            for name, value in optimiser.state[tensor].items()
        }

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from what `state` gave."""
        for key, value in state.items():
            part, place, name = key.split(".")
            optimiser, _ = self._parts[int(part)]
            optimiser.state[_tensors(optimiser)[int(place)]][name] = value


def _tensors(optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [tensor for group in optimiser.param_groups for tensor in group["params"]]
