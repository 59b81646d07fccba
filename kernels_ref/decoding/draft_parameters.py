"""Parameters that decoders with drafts have in common, and what a model rules out of them."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, Strict

from kernels_ref.decoding.query import ModelFacts
from kernels_ref.decoding.sampling import Sampling, check_candidates

LEAST_BLOCK_TOKENS: Final = 2
"""One draft beside the newest token."""
Block = Annotated[int, Strict(), Field(ge=LEAST_BLOCK_TOKENS, le=4096)]
Width = Annotated[int, Strict(), Field(ge=1, le=4096)]


@dataclass(frozen=True, kw_only=True)
class Drafting(Sampling):
    """A block of drafts an iteration."""

    block: Block | None = None
    """What the checkpoint was trained for when absent."""

    def block_tokens(self, facts: ModelFacts) -> int:
        """The block in force; ValueError where it leaves no draft."""
        tokens = facts.block_tokens if self.block is None else self.block
        if tokens < LEAST_BLOCK_TOKENS:
            rule = f"block is at least {LEAST_BLOCK_TOKENS} to draft, got {tokens}"
            raise ValueError(rule)
        return tokens

    def check(self, facts: ModelFacts) -> None:
        """Raise ValueError for what a model rules out."""
        super().check(facts)
        self.block_tokens(facts)


@dataclass(frozen=True, kw_only=True)
class TreeDrafting(Drafting):
    """A tree of drafts: (B, K, V) of the papers as *block*, *top_k* and *tree_size*."""

    top_k: Width = 32
    """Candidates at a place."""
    tree_size: Width = 32
    """Drafts that are verified."""

    def check(self, facts: ModelFacts) -> None:
        """Raise ValueError for what a model rules out."""
        super().check(facts)
        check_candidates("top_k", self.top_k, facts)
