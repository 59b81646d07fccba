"""A model of integers: what each place says is a hash of all that it sees, so nothing rounds.

Two layers deep, as a transformer's KV is: a place's first key is its token's and its place's, its
second one also follows from the first keys that it saw. So KV that was written while a token was
still to change differs from the KV of the finished sequence, by every bit. Probabilities lie on a
grid from which thresholds are drawn, so that above and at a threshold are different things.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kernels_ref.decoding.query import Cache, IntArray, ModelFacts, Prediction, Query

Hashes = npt.NDArray[np.uint64]

GRID = (0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Probabilities of the most likely token."""
MASK, END, VOCAB = 0, 1, 14
FACTS = ModelFacts(MASK, (END,), 4, 128, VOCAB)


def mixed(values: Hashes) -> Hashes:
    """Splitmix64 of each value."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _seen(keys: Hashes, horizon: IntArray) -> Hashes:
    """The sum of the keys before each horizon, [queries]."""
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys, dtype=np.uint64)])
    return totals[np.minimum(horizon, len(keys))]


@dataclass(frozen=True, eq=False)
class HashedCache:
    """Both layers' keys, [rows, capacity, 2]."""

    keys: Hashes

    def keep(self, rows: list[int]) -> "HashedCache":
        """These rows alone."""
        return HashedCache(self.keys[rows])


@dataclass(frozen=True)
class HashedModel:
    """Mostly says what *seed* and the place say; one time in *calm* what the hash says."""

    seed: int = 0
    calm: int = 8
    facts: ModelFacts = FACTS

    def new_cache(self, rows: int, capacity_tokens: int) -> HashedCache:
        """Room that holds what no place could have written."""
        return HashedCache(np.full((rows, capacity_tokens, 2), 77, np.uint64))

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """Row by row."""
        assert isinstance(cache, HashedCache)
        assert len(queries) == len(cache.keys)
        return [
            None if query is None else self._answer(query, cache.keys[row])
            for row, query in enumerate(queries)
        ]

    def _answer(self, query: Query, keys: Hashes) -> Prediction:
        """The KV of the query's tokens is written first."""
        here = slice(query.left, query.right)
        places = np.arange(query.left, query.right, dtype=np.uint64)
        tokens = query.tokens.astype(np.uint64)
        first = mixed(mixed(tokens + np.uint64(self.seed)) + places)
        if query.hardness is not None:
            first = mixed(first + query.hardness.view(np.uint64))
        keys[here, 0] = first
        second = mixed(first ^ _seen(keys[: query.right, 0], query.horizon))
        keys[here, 1] = second
        state = mixed(second ^ _seen(mixed(keys[: query.right, 1]), query.horizon))
        return self._said(query.left + query.asked, state[query.asked :])

    def _said(self, left: int, state: Hashes) -> Prediction:
        """Tokens, probabilities and logits that agree with them."""
        places = np.arange(left, left + len(state), dtype=np.uint64)
        usual = mixed(mixed(places) + np.uint64(self.seed))
        hashed = state % np.uint64(self.calm) == 0
        choice = np.where(hashed, state >> np.uint64(8), usual)
        token = 1 + (choice % np.uint64(VOCAB - 1)).astype(np.int64)
        level = (state >> np.uint64(40)) % np.uint64(len(GRID))
        probability = np.array(GRID)[level.astype(np.int64)]
        rest = (1 - probability) / (VOCAB - 2)
        logits = torch.from_numpy(np.log(rest))[:, None].repeat(1, VOCAB)
        logits[torch.arange(len(token)), torch.from_numpy(token)] = torch.from_numpy(
            np.log(probability)
        )
        logits[:, MASK] = -torch.inf
        return Prediction(left, token, probability, logits)
