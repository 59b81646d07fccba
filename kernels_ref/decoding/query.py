"""Query and Prediction: all that passes between a decoder and a model."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

Kind = Literal["prefill", "denoise", "store", "fused-store", "draft", "verify"]
"""What a forward is for. Store: only to leave the KV of tokens that are final. Fused store: the
same beside the first denoising of the next block. Draft: tokens that the target may refuse. Verify:
what the target says of them, or of one token alone."""


@dataclass(frozen=True, eq=False)
class Query:
    """One row's part of a forward. The KV of its tokens is written at their places."""

    kind: Kind
    left: int
    """Absolute place of the first token; all cached tokens before it are seen."""
    tokens: IntArray
    """[queries]"""
    horizon: IntArray
    """First absolute place that each query does not see, [queries]."""
    padded: int
    """Slots that the row takes in the forward, dummies behind the tokens included."""
    hardness: FloatArray | None = None
    """[queries], share of the token in its input embedding; the rest is the mask's (DMax)."""
    asked: int = 0
    """Queries before this one get no logits."""
    adapted: BoolArray | None = None
    """[queries], which of them the adapters are on for; none of them when absent."""
    tree: "Tree | None" = None
    """Where queries are nodes of a tree: what they see in place of *horizon*."""
    features: torch.Tensor | None = None
    """What a drafter takes in: [places, width], of the target or of its own last state."""
    moved: "Move | None" = None
    """KV to move before the forward."""

    @property
    def right(self) -> int:
        """Absolute place behind the last token."""
        return self.left + len(self.tokens)


@dataclass(frozen=True, eq=False)
class Tree:
    """Queries that are nodes: each sees its ancestors, and everything that lies before the tree."""

    first: int
    """Absolute place in the cache of the tree's first node; earlier levels lie there too."""
    ancestors: BoolArray
    """[queries, nodes from *first* on, the queries' own the last ones], each node its own."""
    positions: IntArray
    """[queries], position in the text: nodes of one level are alternatives for one token."""


@dataclass(frozen=True, eq=False)
class Move:
    """KV of a row to be made contiguous: the accepted path of a tree, past what was rejected."""

    sources: IntArray
    """Absolute places, [moved]."""
    target: int
    """Absolute place of the first one afterwards, the others follow."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the model says about a query's tokens; those without logits are left out.

    The mask token is never predicted.
    """

    left: int
    """Absolute place of the first prediction."""
    token: IntArray
    """The most likely token at each place, [asked]."""
    probability: FloatArray
    """Its soft-max probability, [asked]."""
    logits: torch.Tensor
    """[asked, vocab], minus infinity at the mask."""
    features: torch.Tensor | None = None
    """[queries, width], what a drafter may take in; for every query, also those not asked."""

    def at(self, places: slice) -> "Prediction":
        """The part of it about absolute *places*."""
        part = slice(places.start - self.left, places.stop - self.left)
        return Prediction(places.start, self.token[part], self.probability[part], self.logits[part])


@dataclass(frozen=True)
class ModelFacts:
    """What decoders must know of a model; data in its file."""

    mask_token: int
    end_tokens: tuple[int, ...]
    block_tokens: int
    """Block that it was trained for."""
    context_tokens: int
    """Longest sequence."""
    vocab: int


class Cache(Protocol):
    """KV of the rows of a batch, in place."""

    def keep(self, rows: list[int]) -> "Cache":
        """A cache of these rows alone, in this order."""


class Model(Protocol):
    """Whatever answers queries: the reference model, or a checkpoint from outside."""

    @property
    def facts(self) -> ModelFacts:
        """See `ModelFacts`."""

    def new_cache(self, rows: int, capacity_tokens: int) -> Cache:
        """Room for *rows* sequences."""

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """One dense forward over a batch, one entry a row of *cache*; None where a row waits."""
