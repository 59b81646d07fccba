"""What the drafting policies share: their parameters and their pace."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, Strict

from simulator.pace import AcceptancePace, ConstantPace, Pace
from simulator.replay.iteration_pace import IterationPace
from traces.acceptance import AcceptanceModel
from traces.iteration_trace import IterationTrace

Block = Annotated[int, Strict(), Field(ge=2, le=4096)]
Width = Annotated[int, Strict(), Field(ge=1, le=4096)]
ANY_BENCHMARK: Final = "Average"
"""What published traces call the mean over their benchmarks; a captured one has one task."""
TokensPerStep = Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class ChainParameters:
    """A chain of drafts per step; acceptance is a constant or comes from a trace.

    Of a captured trace, what is not given of block, top_k and tree_size is as captured.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    TRACES_OF: ClassVar[str | None] = None
    """The policy whose traces say what is accepted; None for its own."""
    FORGONE_TOKENS: ClassVar[int] = 0
    """Guaranteed tokens of a step of that policy which a step of this one does not have."""

    policy: str
    block: Block = 4
    tokens_per_step: TokensPerStep | None = None
    """Replaces the trace: every step emits this many tokens on average, evenly spread."""
    trace: str | None = None
    benchmark: str = ANY_BENCHMARK

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


def pace_of(
    parameters: ChainParameters,
    acceptance: AcceptanceModel | None,
    iterations: IterationTrace | None = None,
    *,
    repeats: bool = False,
) -> Pace:
    """The pace that the parameters ask for: the constant if given, else what the trace says.

    *repeats* tells that the requests of the run name the captured ones that they repeat.
    """
    forgone = parameters.FORGONE_TOKENS
    if iterations is not None:
        return IterationPace(iterations, parameters.block, repeats, forgone)
    if parameters.tokens_per_step is not None or acceptance is None:
        return ConstantPace(parameters.tokens_per_step or 1.0)
    return AcceptancePace(acceptance, parameters.block, parameters.acceptance_tree_size, forgone)
