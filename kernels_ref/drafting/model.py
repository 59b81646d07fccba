"""SpeculativeModel: a target and the drafter beside it, which decoders ask as one model."""

from dataclasses import dataclass
from typing import Protocol

from kernels_ref.decoding.packed import Queries
from kernels_ref.decoding.query import Cache, ModelFacts, Prediction
from kernels_ref.decoding.reference import DenseCache, ReferenceModel
from kernels_ref.passes import Decoder


class Drafter(Protocol):
    """What answers draft queries."""

    @property
    def tapped(self) -> tuple[int, ...]:
        """Layers of the target that it takes states from, counted from 1."""

    def new_cache(self, rows: int, capacity_tokens: int) -> Cache:
        """Room for *rows* sequences."""

    def forward(self, queries: Queries, cache: Cache) -> list[Prediction | None]:
        """One dense forward over a batch; None where a row waits."""


class OwnLayers:
    """What drafters with layers of their own have in common: a cache for them."""

    def __init__(self, decoder: Decoder, tapped: tuple[int, ...], mask_token: int) -> None:
        """Of the layers of *decoder*, fed by the *tapped* ones of the target."""
        self.tapped = tapped
        self._mask_token = mask_token
        self._layers = decoder

    def new_cache(self, rows: int, capacity_tokens: int) -> DenseCache:
        """Room for *rows* sequences."""
        return DenseCache(self._layers.new_cache(rows, capacity_tokens))


@dataclass(frozen=True)
class PairCache:
    """KV of a target and of its drafter."""

    target: Cache
    drafter: Cache

    def keep(self, rows: list[int]) -> "PairCache":
        """These rows alone."""
        return PairCache(self.target.keep(rows), self.drafter.keep(rows))


class SpeculativeModel:
    """Draft queries go to the drafter, all others to the target."""

    def __init__(self, target: ReferenceModel, drafter: Drafter, facts: ModelFacts) -> None:
        """The *target* taps what the *drafter* wants; *facts* has the block of the drafter."""
        self.facts = facts
        self._target, self._drafter = target, drafter

    def new_cache(self, rows: int, capacity_tokens: int) -> PairCache:
        """Room for *rows* sequences in both."""
        sizes = rows, capacity_tokens
        return PairCache(self._target.new_cache(*sizes), self._drafter.new_cache(*sizes))

    def forward(self, queries: Queries, cache: Cache) -> list[Prediction | None]:
        """One dense forward of one of the two: draft queries and others never share one."""
        if not isinstance(cache, PairCache):
            rule = f"a PairCache, got {type(cache).__name__}"
            raise TypeError(rule)
        if any(query is not None and query.kind == "draft" for query in queries):
            return self._drafter.forward(queries, cache.drafter)
        return self._target.forward(queries, cache.target)
