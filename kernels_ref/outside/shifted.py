"""Shifted: a model whose output at a place predicts the token behind it, asked like any other.

Autoregressive models that were turned into diffusion models keep that shift (Dream, Fast-dLLM v2).
"""

from dataclasses import dataclass

import numpy as np
import torch

from kernels_ref.decoding.query import (
    Cache,
    FloatArray,
    IntArray,
    Model,
    ModelFacts,
    Prediction,
    Query,
)


@dataclass(frozen=True, eq=False)
class ShiftedCache:
    """The inner model's cache, and how each place was last asked: [rows, capacity] each."""

    inner: Cache
    tokens: IntArray
    horizon: IntArray
    hardness: FloatArray

    def keep(self, rows: list[int]) -> "ShiftedCache":
        """These rows alone."""
        tokens, horizon, hardness = self.tokens[rows], self.horizon[rows], self.hardness[rows]
        return ShiftedCache(self.inner.keep(rows), tokens, horizon, hardness)

    def note(self, row: int, query: Query) -> None:
        """Remember how *query* asks its places."""
        places = slice(query.left, query.right)
        self.tokens[row, places] = query.tokens
        self.horizon[row, places] = query.horizon
        self.hardness[row, places] = 1.0 if query.hardness is None else query.hardness


class Shifted:
    """Answers queries with *inner*, its outputs moved one place to the right.

    A query takes one more token, the one before it, whose KV is written again with what it was. The
    first place of a sequence, which nothing predicts, has its own output (as Dream has it).
    """

    def __init__(self, inner: Model) -> None:
        """Take a model whose outputs are shifted."""
        self.inner = inner

    @property
    def facts(self) -> ModelFacts:
        """Those of the inner model."""
        return self.inner.facts

    def new_cache(self, rows: int, capacity_tokens: int) -> ShiftedCache:
        """Room for *rows* sequences."""
        size = (rows, capacity_tokens)
        inner = self.inner.new_cache(rows, capacity_tokens)
        tokens, horizon = (np.zeros(size, dtype=np.int64) for _ in range(2))
        return ShiftedCache(inner, tokens, horizon, np.ones(size))

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """One dense forward of the inner model, as wide as the widest query and its neighbour."""
        if not isinstance(cache, ShiftedCache):
            rule = f"a ShiftedCache, got {type(cache).__name__}"
            raise TypeError(rule)
        wider = [
            None if query is None else _with_neighbour(query, row, cache)
            for row, query in enumerate(queries)
        ]
        said = self.inner.forward(wider, cache.inner)
        for row, query in enumerate(queries):
            if query is not None:
                cache.note(row, query)
        return [
            None if query is None or answer is None else _moved(query, answer)
            for query, answer in zip(queries, said, strict=True)
        ]


def _with_neighbour(query: Query, row: int, cache: ShiftedCache) -> Query:
    """*query* with the token before it, so that its *asked* is that of the outputs it needs."""
    if query.left == 0:
        return Query(
            query.kind,
            0,
            query.tokens,
            query.horizon,
            query.padded,
            hardness=query.hardness,
            asked=max(query.asked - 1, 0),
        )
    before = slice(query.left - 1, query.left)
    soft = np.ones(len(query.tokens)) if query.hardness is None else query.hardness
    hardness = np.concatenate((cache.hardness[row, before], soft))
    return Query(
        query.kind,
        query.left - 1,
        np.concatenate((cache.tokens[row, before], query.tokens)),
        np.concatenate((cache.horizon[row, before], query.horizon)),
        query.padded + 1,
        hardness=hardness if (hardness < 1).any() else None,
        asked=query.asked,
    )


def _moved(query: Query, said: Prediction) -> Prediction:
    """The outputs *said* as predictions of the query's own places."""
    left = query.left + query.asked
    if left > 0:
        return Prediction(left, said.token[:-1], said.probability[:-1], said.logits[:-1])
    return Prediction(
        0,
        np.concatenate((said.token[:1], said.token[:-1])),
        np.concatenate((said.probability[:1], said.probability[:-1])),
        torch.cat((said.logits[:1], said.logits[:-1])),
    )
