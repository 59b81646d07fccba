"""What the drafting policies share: their parameters and their pace."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, Strict

from simulator.pace import AcceptancePace, ConstantPace, Pace
from traces.acceptance import AcceptanceModel

Block = Annotated[int, Strict(), Field(ge=2, le=4096)]
Width = Annotated[int, Strict(), Field(ge=1, le=4096)]
TokensPerStep = Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class ChainParameters:
    """A chain of drafts per step; acceptance is a constant or comes from a trace."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    policy: str
    block: Block = 4
    tokens_per_step: TokensPerStep | None = None
    """Replaces the trace: every step emits this many tokens on average, evenly spread."""
    trace: str | None = None
    benchmark: str = "Average"

    @property
    def acceptance_tree_size(self) -> int | None:
        """Verified draft nodes when the drafts form a tree; None for a chain."""
        return None

    @property
    def most_tokens_per_step(self) -> int:
        """Tokens of a step whose drafts are all accepted."""
        return self.block + 1


@dataclass(frozen=True, kw_only=True)
class TreeParameters(ChainParameters):
    """A tree of drafts: *block* deep at most, *top_k* candidates a level, *tree_size* verified."""

    block: Block = 16
    top_k: Width = 32
    tree_size: Width = 32

    @property
    def acceptance_tree_size(self) -> int | None:
        """Verified draft nodes."""
        return self.tree_size

    @property
    def most_tokens_per_step(self) -> int:
        """Tokens of a step that accepts the longest path the tree can hold, and one more."""
        return min(self.block, self.tree_size) + 1


def pace_of(parameters: ChainParameters, acceptance: AcceptanceModel | None) -> Pace:
    """The pace that the parameters ask for: the constant if given, else the trace's draws."""
    if parameters.tokens_per_step is not None or acceptance is None:
        return ConstantPace(parameters.tokens_per_step or 1.0)
    return AcceptancePace(acceptance, parameters.block, parameters.acceptance_tree_size)
