"""A model whose predictions are written out by the test, so that decoders are checked by hand.

Its cache holds the tokens that were put in last at every place, so what a prediction sees is what
real keys and values would be about: stale ones show.
"""

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernels_ref.decoders import Parameters, policy
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.query import Cache, IntArray, ModelFacts, Prediction, Query
from kernels_ref.decoding.sequence import Sequence

Said = tuple[int, float]
"""A token and its probability; what is left is shared evenly by the others but the mask."""
Says = Callable[[int, IntArray, int], Said]
"""(place, tokens seen from place 0 on, how often the place was asked before) -> what is said."""

MASK, END = 0, 1
NOTHING = -1
"""What the cache holds where nothing was put in yet."""
FACTS = ModelFacts(mask_token=MASK, end_tokens=(END,), block_tokens=4, context_tokens=64, vocab=100)


@dataclass
class TokenCache:
    """Tokens put in and times asked, both [rows, capacity]."""

    tokens: IntArray
    turns: IntArray

    def keep(self, rows: list[int]) -> "TokenCache":
        """These rows alone."""
        return TokenCache(self.tokens[rows], self.turns[rows])


@dataclass
class ScriptedModel:
    """Answers by *says*, and keeps the *queries* of every forward."""

    says: Says
    facts: ModelFacts = FACTS
    queries: list[list[Query | None]] = field(default_factory=list)

    def new_cache(self, rows: int, capacity_tokens: int) -> TokenCache:
        """Room for *rows* sequences, nothing in it."""
        empty = np.full((rows, capacity_tokens), NOTHING)
        return TokenCache(empty, np.zeros_like(empty))

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """What the script says about each row's tokens."""
        assert isinstance(cache, TokenCache)
        self.queries.append(queries)
        return [
            None if query is None else self._predict(query, cache.tokens[row], cache.turns[row])
            for row, query in enumerate(queries)
        ]

    def _predict(self, query: Query, tokens: IntArray, turns: IntArray) -> Prediction:
        tokens[query.left : query.right] = query.tokens
        said = []
        for place in range(query.left + query.asked, query.right):
            seen = tokens[: min(query.horizon[place - query.left], query.right)]
            said.append(self.says(place, seen.copy(), int(turns[place])))
            turns[place] += 1
        return Prediction(
            query.left + query.asked,
            np.array([token for token, _ in said]),
            np.array([probability for _, probability in said]),
            torch.stack([self._logits(*one) for one in said])
            if said
            else torch.empty(0, self.facts.vocab),
        )

    def _logits(self, token: int, probability: float) -> torch.Tensor:
        """Log-probabilities [vocab], which are logits too."""
        rest = (1 - probability) / (self.facts.vocab - 2)
        assert probability > rest, "a token that is said is the most likely one"
        other = math.log(rest) if rest > 0 else -math.inf
        logits = torch.full((self.facts.vocab,), other, dtype=torch.float64)
        logits[token] = math.log(probability)
        logits[self.facts.mask_token] = -math.inf
        return logits


def in_turns(turns: Mapping[int, Items[Said]], *, otherwise: Said = (9, 0.5)) -> Says:
    """Each place says its list in turn, one entry a forward, the last one for ever."""

    def says(place: int, _seen: IntArray, turn: int) -> Said:
        listed = turns.get(place, [otherwise])
        return listed[min(turn, len(listed) - 1)]

    return says


def numbered(turns: Mapping[int, Items[float]], *, otherwise: float = 0.5) -> Says:
    """As `in_turns`, of probabilities: place p says token 10 + p always."""

    def says(place: int, _seen: IntArray, turn: int) -> Said:
        listed = turns.get(place, [otherwise])
        return 10 + place, listed[min(turn, len(listed) - 1)]

    return says


def decoded(
    says: Says,
    prompt: Items[int],
    parameters: Parameters,
    *,
    output_tokens: int,
    facts: ModelFacts = FACTS,
    **about: Any,
) -> tuple[Sequence, list[Query]]:
    """One row decoded alone by the policy of *parameters*: its sequence and all its queries."""
    module = policy(parameters.policy)
    sequence = Sequence(
        prompt,
        facts=facts,
        block_tokens=parameters.block or facts.block_tokens,
        output_tokens=output_tokens,
        from_prompt=module.PROMPT != "block-causal",
        **about,
    )
    model = ScriptedModel(says, facts)
    decode_batch(model, [sequence], module.decode([sequence], parameters))
    return sequence, [query for row in model.queries for query in row if query is not None]
