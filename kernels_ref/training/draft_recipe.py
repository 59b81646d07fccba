"""DraftRecipe: everything that decides what a drafter's training run gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import Field

from kernels_ref.drafting.adapters import AdapterShape
from kernels_ref.drafting.eagle3 import LEAST_TAPPED
from kernels_ref.task.problems import PHRASINGS
from kernels_ref.training.recipe import Count, Course, Name, Share

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Block = Annotated[int, Field(ge=2, le=64)]
DraftObjective = Literal["noise-adapters", "mask-adapters", "eagle3", "dflash"]


class Stage(Protocol):
    """A part of a run, up to a share of its steps."""

    @property
    def until(self) -> float:
        """Share of the steps at which it ends."""


S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class LossStage:
    """Weights of the parts of the loss, up to a share of the steps."""

    until: Share = 1.0
    consistency: Weight = 0.0
    """Alpha of L_DCD: divergence of the drafter from its target (Uno, equations 8 and 9)."""
    total_variation: Weight = 0.0
    """Beta of L_TV (Uno, equation 10)."""
    cross_entropy: Weight = 0.0
    """Of the drafter under its target's distribution."""


@dataclass(frozen=True)
class BlockStage:
    """Blocks to train on, one of them drawn for every step, up to a share of the steps."""

    blocks: Annotated[tuple[Block, ...], Field(min_length=1)]
    until: Share = 1.0


@dataclass(frozen=True, kw_only=True)
class DraftRecipe(Course):
    """A drafter to be: of which target, and what it learns."""

    objective: DraftObjective
    start: Name
    """Checkpoint of the target, which stays as it is."""
    loss: Annotated[tuple[LossStage, ...], Field(min_length=1)]
    blocks: Annotated[tuple[BlockStage, ...], Field(min_length=1)] = (BlockStage((8,)),)
    """For EAGLE-3 a block is how many tokens follow one another in training."""
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Weight of each place of a block, over that of the place before."""
    adapters: AdapterShape = field(default_factory=AdapterShape)
    layers: Count = 1
    """Of a drafter of its own."""
    tapped: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4)
    """Layers of the target whose states such a drafter takes in, counted from 1."""
    draft_vocab: Count = 80
    """Most frequent tokens, the only ones that EAGLE-3 drafts."""
    phrasing: Annotated[int, Field(ge=0, lt=PHRASINGS)] | None = None
    """Train on solutions in this phrasing alone: other text than the target writes."""

    def __post_init__(self) -> None:
        """Refuse stages that do not follow one another to the end, and layers out of order."""
        for name, stages in (("loss", self.loss), ("blocks", self.blocks)):
            ends = [stage.until for stage in stages]
            if ends != sorted(set(ends)) or ends[-1] != 1.0:
                rule = f"{name}: until rises to 1, got {', '.join(map(str, ends))}"
                raise ValueError(rule)
        if self.name == self.start:
            rule = f"name is not that of its start, got {self.name} for both"
            raise ValueError(rule)
        if list(self.tapped) != sorted(set(self.tapped)):
            rule = f"tapped: layers rise, got {', '.join(map(str, self.tapped))}"
            raise ValueError(rule)
        if self.objective == "eagle3" and len(self.tapped) < LEAST_TAPPED:
            rule = f"tapped: EAGLE-3 fuses {LEAST_TAPPED} layers or more, got {len(self.tapped)}"
            raise ValueError(rule)

    @property
    def largest_block(self) -> int:
        """The largest block that it trains for."""
        return max(block for stage in self.blocks for block in stage.blocks)

    def stage(self, stages: Sequence[S], step: int) -> S:
        """The one of *stages* that *step*, counted from zero, is in."""
        return next(stage for stage in stages if step < stage.until * self.steps)
