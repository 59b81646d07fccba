"""Learner: what a training run needs of whatever is trained."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from kernels_ref.training.recipe import Course

LAST_PART: Final = 20
"""The final loss is the mean over the last 1/20 of the steps."""


class TrainingError(ValueError):
    """A run that cannot start or go on, and why."""


class Learner(Protocol):
    """Named tensors, the loss that changes them, and the checkpoint that they become."""

    @property
    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Leaves that gradients flow to, by name."""

    def loss(self, step: int) -> torch.Tensor:
        """Of *step*, which with the recipe's seed decides all chance."""

    def write(self, folder: Path, losses: Sequence[float]) -> object:
        """Put the checkpoint into *folder* and say what its manifest says."""


def leaves(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of *tensors* that gradients flow to."""
    return {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}


def about_run(recipe: Course, losses: Sequence[float]) -> dict[str, Any]:
    """The fields that every manifest has of the run that made it."""
    last = losses[-max(1, len(losses) // LAST_PART) :]
    return {
        "name": recipe.name,
        "description": recipe.description.strip(),
        "recipe": asdict(recipe),
        "software": {"python": platform.python_version(), "torch": torch.__version__},
        "final_loss": round(sum(last) / len(last), 5),
    }
