"""A target whose law is a table, with drafters beside it: exact, and made for asking what is seen.

Its cache holds what was put in at every place, so a place that is stale, or not moved, shows in all
that is said behind it. Features are names of contexts: who is handed one knows what they are of.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels_ref.decoding.query import Cache, FloatArray, IntArray, ModelFacts, Prediction, Query

Context = tuple[int, ...]
"""Tokens before a place; what adapters were on for is a token beyond the vocabulary."""
MASK, END = 1, 3
TINY = ModelFacts(MASK, (END,), 4, 64, 4)
"""Three tokens and the mask."""
TARGET_WIDTH = 3
"""Features of the target are as wide, those of a drafter itself are of width 1."""


@functools.cache
def table(context: Context, vocab: int, seed: int) -> FloatArray:
    """The law behind *context*, of all tokens but the mask; some far more likely than others."""
    rng = np.random.default_rng([seed, len(context), *(token % 2**32 for token in context)])
    weights = np.exp(1.5 * rng.normal(size=vocab))
    weights[MASK] = 0.0
    law: FloatArray = weights / weights.sum()
    return law


@dataclass(frozen=True)
class Ask:
    """What a drafter may go by: *known* tokens, drafts *ahead* of them, all that it sees."""

    known: Context
    ahead: int
    seen: Context


Drafter = Callable[["TableModel", Ask], FloatArray]
"""A law [vocab]."""


def oracle(model: "TableModel", ask: Ask) -> FloatArray:
    """The target itself, each draft ahead being the most likely one."""
    context = ask.known
    for _ in range(ask.ahead):
        context = (*context, int(model.law(context).argmax()))
    return model.law(context)


def stranger(model: "TableModel", ask: Ask) -> FloatArray:
    """Has nothing to do with the target, but follows from all that it sees."""
    return table(ask.seen, model.facts.vocab, model.seed + 1)


def narrow(model: "TableModel", ask: Ask) -> FloatArray:
    """The stranger, who allows for two tokens only."""
    law = stranger(model, ask).copy()
    law[np.argsort(law)[:-2]] = 0.0
    return np.asarray(law / law.sum())


def single(model: "TableModel", ask: Ask) -> FloatArray:
    """The stranger, who allows for one token only."""
    law = stranger(model, ask)
    return np.where(law == law.max(), 1.0, 0.0)


def even(model: "TableModel", ask: Ask) -> FloatArray:
    """The target and the stranger by halves: now and then right."""
    return (oracle(model, ask) + stranger(model, ask)) / 2


DRAFTERS: dict[str, Drafter] = {
    "oracle": oracle, "stranger": stranger, "narrow": narrow, "single": single, "even": even,
}  # fmt: skip


@dataclass(frozen=True)
class TableCache:
    """What lies at each place of each row, [rows, capacity]: for target and drafter."""

    tokens: IntArray
    positions: IntArray
    drafted: IntArray
    beside: IntArray
    """Tokens that a drafter took in beside features: that of place i is the text's at i + 1."""

    def keep(self, rows: list[int]) -> "TableCache":
        """These rows alone."""
        kept = (self.tokens, self.positions, self.drafted, self.beside)
        return TableCache(*(part[rows] for part in kept))


@dataclass(eq=False)
class TableModel:
    """Answers by `table`, and draft queries by *drafter*."""

    facts: ModelFacts = TINY
    drafter: Drafter = stranger
    seed: int = 0
    contexts: dict[float, Context] = field(default_factory=dict)
    """By their names."""

    def law(self, context: Context) -> FloatArray:
        """The target's own law."""
        return table(context, self.facts.vocab, self.seed)

    def new_cache(self, rows: int, capacity_tokens: int) -> TableCache:
        """Room that holds what no place could have written."""
        empty = np.full((4, rows, capacity_tokens), -7)
        return TableCache(*empty)

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """Row by row."""
        assert isinstance(cache, TableCache)
        assert len(queries) == len(cache.tokens)
        return [
            None if query is None else self._answer(query, cache, row)
            for row, query in enumerate(queries)
        ]

    def _answer(self, query: Query, cache: TableCache, row: int) -> Prediction:
        if query.features is None:
            return self._by_target(query, cache.tokens[row], cache.positions[row])
        assert query.kind == "draft"
        if is_whole(query):
            return self._by_block_drafter(query, cache.drafted[row])
        return self._by_token_drafter(query, cache.drafted[row], cache.beside[row])

    def _by_target(self, query: Query, tokens: IntArray, positions: IntArray) -> Prediction:
        """Its own law, or with adapters on what the drafter says."""
        if query.moved is not None:
            moved = query.moved
            places = np.arange(moved.target, moved.target + len(moved.sources))
            for kept in (tokens, positions):
                kept[places] = kept[moved.sources]
        here = slice(query.left, query.right)
        on = np.zeros(len(query.tokens), bool) if query.adapted is None else query.adapted
        tokens[here] = query.tokens + self.facts.vocab * on
        positions[here] = positions_of(query)
        laws, names = [], []
        for number, adapted in enumerate(on.tolist()):
            places = seen_by(query, number)
            assert positions[places].tolist() == list(range(len(places)))
            context = tuple(tokens[places].tolist())
            names.append(self._name(context))
            if adapted:
                laws.append(self._adapted(query, tokens, number, context))
            else:
                assert max(context) < self.facts.vocab, "what drafts left behind is seen"
                laws.append(self.law(context))
        return self._said(query, laws, np.repeat(np.array(names)[:, None], TARGET_WIDTH, axis=1))

    def _adapted(self, query: Query, tokens: IntArray, number: int, context: Context) -> FloatArray:
        """Behind noise the next token, at a mask its own; the newest token is known to both."""
        known = tuple((tokens[: query.left + 1] % self.facts.vocab).tolist())
        ahead = max(number - 1, 0) if is_whole(query) else number
        return self.drafter(self, Ask(known, ahead, (*context, number)))

    def _by_token_drafter(self, query: Query, drafted: IntArray, beside: IntArray) -> Prediction:
        """EAGLE: a feature beside the token behind it, at each place."""
        assert query.features is not None
        assert query.features.shape == (len(query.tokens), query.features.shape[1])
        known = [
            (*self.contexts[name], token)
            for name, token in zip(
                query.features[:, 0].tolist(), query.tokens.tolist(), strict=True
            )
        ]
        beside[query.left : query.right] = query.tokens
        for number, context in enumerate(known):
            assert context[1:] == tuple(beside[seen_by(query, number)].tolist())
            # A place of the drafter has one token before it that it never took in.
            assert int(positions_of(query)[number]) == len(context) - 2
        own = query.features.shape[1] == 1
        drafted[query.left : query.right] = [hash((own, *context)) % 2**31 for context in known]
        laws = [
            self.drafter(self, Ask(context, 0, tuple(drafted[seen_by(query, number)].tolist())))
            for number, context in enumerate(known)
        ]
        return self._said(query, laws, np.array([[self._name(context)] for context in known]))

    def _by_block_drafter(self, query: Query, drafted: IntArray) -> Prediction:
        """DFlash: features of the places before the block, then the block at once."""
        assert query.features is not None
        names = query.features[:, 0].tolist()
        left = query.left - len(names)
        drafted[left : query.left] = [hash(self.contexts[name]) % 2**31 for name in names]
        drafted[query.left : query.right] = query.tokens
        known = (*self.contexts[names[-1]], int(query.tokens[0]))
        assert len(known) == query.left + 1
        seen = tuple(drafted[: query.right].tolist())
        laws = [
            self.drafter(self, Ask(known, max(number - 1, 0), (*seen, number)))
            for number in range(len(query.tokens))
        ]
        return self._said(query, laws, None)

    def _name(self, context: Context) -> float:
        name = float(hash(context) % 2**52)
        assert self.contexts.setdefault(name, context) == context
        return name

    def _said(
        self, query: Query, laws: list[FloatArray], features: FloatArray | None
    ) -> Prediction:
        law = np.array(laws[query.asked :]).reshape(-1, self.facts.vocab)
        with np.errstate(divide="ignore"):
            logits = torch.from_numpy(np.log(law))
        return Prediction(
            query.left + query.asked,
            law.argmax(axis=1),
            law.max(axis=1),
            logits,
            None if features is None else torch.from_numpy(features),
        )


def is_whole(query: Query) -> bool:
    """Whether the tokens of a query all see one another."""
    return query.tree is None and int(query.horizon[0]) > query.left + 1


def positions_of(query: Query) -> IntArray:
    """Positions in the text of a query's tokens."""
    if query.tree is None:
        return np.arange(query.left, query.right)
    return query.tree.positions


def seen_by(query: Query, number: int) -> IntArray:
    """Absolute places that the query's token *number* sees, in order of the text."""
    if query.tree is None:
        return np.arange(min(int(query.horizon[number]), query.right))
    nodes = query.tree.first + np.flatnonzero(query.tree.ancestors[number])
    return np.concatenate([np.arange(query.tree.first), nodes])
