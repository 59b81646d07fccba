"""Recipe: everything that decides what a training run gives, one YAML file each in `recipes/`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, Strict

from kernels_ref.training.noise import Schedule
from kernels_ref.training.streams import Grouping, Prompt

RECIPES: Final = Path(__file__).parent / "recipes"
Count = Annotated[int, Strict(), Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""What files are named after: one part of a path."""
Objective = Literal["next-token", "denoise"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """What every recipe says: where it starts, for how long, and how fast it learns."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Name
    description: str
    steps: Count
    rows: Count = 16
    matrix_learning_rate: Positive = 0.02
    other_learning_rate: Positive = 3e-3
    warm_up_steps: Annotated[int, Field(ge=0)] = 50
    hold_share: Share = 0.4
    """Share of the steps at the full learning rate, the warm-up in it; then it falls to zero."""
    seed: Annotated[int, Field(ge=0)] = 0

    def learning_rate_share(self, step: int) -> float:
        """Of the full learning rate, at *step* counted from zero."""
        if step < self.warm_up_steps:
            return (step + 1) / self.warm_up_steps
        held = self.hold_share * self.steps
        return 1.0 if step < held else (self.steps - step) / (self.steps - held)


@dataclass(frozen=True, kw_only=True)
class Recipe(Course):
    """A model to be: what it learns."""

    objective: Objective
    start: Name | None = None
    """Checkpoint to start from; random weights without one."""
    noise: Literal["mask", "uniform"] = "mask"
    """What stands where a token is unknown: the mask, or any token of the vocabulary."""
    schedule: Schedule = "independent"
    grouping: Grouping = "single"
    max_group: Count = 1
    prompt: Prompt = "block-causal"
    corruption: Share = 0.0
    """Largest share of a block's visible tokens that are wrong: the token-to-token objective."""
    loss_on: Literal["masked", "all"] = "all"
    self_draft_share: Share = 0.0
    """Share of the steps of the second half whose masks the model itself fills before."""
    block_tokens: Count = 16
    experts: bool = False
    """The variant with routed and shared experts in place of the dense feed-forward."""
