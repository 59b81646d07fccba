"""Small drafters to train, and what a step of their training compares."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels_ref.checkpoint import read_checkpoint
from kernels_ref.drafting.adapters import AdapterShape
from kernels_ref.random_weights import Draw, normal
from kernels_ref.training import adapters, dflash, drafters, eagle3
from kernels_ref.training.batches import FloatArray, IntArray
from kernels_ref.training.draft_loss import draft_loss
from kernels_ref.training.draft_recipe import BlockStage, DraftObjective, DraftRecipe, LossStage
from kernels_ref.training.draft_streams import DraftBlocks, draft_blocks
from kernels_ref.training.drafters import Step, drawn_step
from kernels_ref.training.learner import Learner
from kernels_ref.training.learners import learner_of
from kernels_ref.training.noise import uniform
from tests.kernels_ref.drafting.pairs import TAPPED, target, written_target

OBJECTIVES: tuple[DraftObjective, ...] = ("noise-adapters", "mask-adapters", "eagle3", "dflash")
MODULES = (adapters, dflash, eagle3)


def tiny_draft(objective: DraftObjective, **changes: Any) -> DraftRecipe:
    """A recipe of a second or so, of a target in the same folder."""
    fields: dict[str, Any] = {
        "name": "tiny-draft",
        "description": "For tests.",
        "start": "target",
        "steps": 6,
        "rows": 2,
        "warm_up_steps": 2,
        "loss": (LossStage(consistency=1.0, total_variation=0.5, cross_entropy=0.25),),
        "blocks": (BlockStage((5,)),),
        "adapters": AdapterShape(rank=3, alpha=6.0),
        "layers": 2,
        "tapped": TAPPED,
        "draft_vocab": 30,
    }
    return DraftRecipe(objective=objective, **{**fields, **changes})


def with_target(folder: Path) -> Path:
    """The manifest of a target in *folder*."""
    written_target(folder, target())
    return folder / "target.yaml"


@dataclass(frozen=True, eq=False)
class Compared:
    """What one call of the loss was given."""

    log_q: torch.Tensor
    log_p: torch.Tensor
    weights: FloatArray
    stage: LossStage
    value: torch.Tensor


@dataclass(eq=False)
class Asked:
    """A step, as it compares drafter and target."""

    drawn: Step
    compared: list[Compared] = field(default_factory=list)
    blocks: list[DraftBlocks] = field(default_factory=list)
    noise: list[IntArray] = field(default_factory=list)
    value: torch.Tensor = field(default_factory=lambda: torch.zeros(()))

    @property
    def tokens(self) -> IntArray:
        """Clean ones, [rows, length]."""
        return self.drawn.given.tokens

    def whole_blocks(self) -> list[tuple[int, int, int]]:
        """Row, first place and the place behind it, of every block of drafts."""
        (blocks,) = self.blocks
        found = []
        for row, number in enumerate(blocks.number):
            for one in range(int(number.max()) + 1):
                places = (number == one).nonzero()[0]
                found.append((row, int(places[0]), int(places[-1]) + 1))
        return found


def exact_learner(patch: pytest.MonkeyPatch, recipe: DraftRecipe, start: Path) -> Learner:
    """A learner in float64 with random weights that half precision holds exactly."""

    def doubled(_: torch.dtype, device: str, seed: int) -> Draw:
        return normal(torch.float64, device, seed)

    with patch.context() as within:
        within.setattr(drafters, "read_checkpoint", partial(read_checkpoint, dtype=torch.float64))
        within.setattr(eagle3, "COUNTED_PROBLEMS", 40)
        for module in MODULES:
            within.setattr(module, "normal", doubled)
        learner = learner_of(recipe, start)
    stir(learner)
    return learner


def stir(learner: Learner, seed: int = 0) -> None:
    """Put every tensor a little off what it is, in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in learner.tensors.values():
            off = 0.2 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            tensor.copy_((tensor + off).half())


def asked(patch: pytest.MonkeyPatch, learner: Learner, recipe: DraftRecipe, step: int) -> Asked:
    """What `loss` of *step* compares."""
    found = Asked(drawn_step(recipe, step))

    def noting(into: list[Any], made: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            into.append(made(*arguments, **named))
            return into[-1]

        return call

    def compare(
        log_q: torch.Tensor, log_p: torch.Tensor, weights: FloatArray, stage: LossStage
    ) -> torch.Tensor:
        value = draft_loss(log_q, log_p, weights, stage)
        found.compared.append(Compared(log_q, log_p, weights, stage, value))
        return value

    with patch.context() as within:
        for module in MODULES:
            within.setattr(module, "draft_loss", compare)
        for module in (adapters, dflash):
            within.setattr(module, "draft_blocks", noting(found.blocks, draft_blocks))
        within.setattr(adapters, "uniform", noting(found.noise, uniform))
        found.value = learner.loss(step)
    return found
