"""The reference model as a decoder sees it: a checkpoint that answers queries."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from kernels_ref.checkpoint import Checkpoint, CheckpointManifest
from kernels_ref.decoding.packed import packed
from kernels_ref.decoding.query import Cache, IntArray, ModelFacts, Prediction, Query
from kernels_ref.kernels.kv_cache import move_kv
from kernels_ref.kernels.lm_head import confidence, lm_head
from kernels_ref.passes import Decoder, KvCache

CONFIDENCE_LOGITS: Final = 2**19
"""How many logits are exponentiated at once: what a cache of a few MiB holds."""


@dataclass(frozen=True)
class DenseCache:
    """KV preallocated per row at absolute places."""

    kv: KvCache

    def keep(self, rows: list[int]) -> "DenseCache":
        """These rows alone."""
        keys, values = (
            tuple(layer[rows] for layer in part) for part in (self.kv.keys, self.kv.values)
        )
        return DenseCache(KvCache(keys, values))


class ReferenceModel:
    """Answers queries with a `Decoder`; the mask token is never predicted."""

    def __init__(self, decoder: Decoder, facts: ModelFacts, tapped: tuple[int, ...] = ()) -> None:
        """Take a decoder in any float dtype, and what decoders must know of it.

        Predictions have for features the states behind the *tapped* layers, counted from 1.
        """
        self.decoder = decoder
        self.facts = facts
        self._tapped = tapped

    def new_cache(self, rows: int, capacity_tokens: int) -> DenseCache:
        """Room for *rows* sequences, all zeros."""
        return DenseCache(self.decoder.new_cache(rows, capacity_tokens))

    @torch.no_grad()
    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """One dense forward [rows, widest]; rows without a query are padding and touch nothing."""
        kv = dense(cache).kv
        make_contiguous(queries, kv)
        asked = packed(
            queries,
            mask_token=self.facts.mask_token,
            capacity_tokens=kv.capacity_tokens,
            device=kv.keys[0].device,
        )
        states, streams = self.decoder.tapped_states(
            self._embedded(asked.tokens, queries),
            asked.visibility,
            plans=self.decoder.plans(asked.visibility, asked.widest, kv),
            positions=asked.positions,
            cache=kv,
            gate=asked.gate,
            tapped=self._tapped,
        )
        logits = lm_head(asked_states(states, queries), self.decoder.weights.lm_head)
        logits[:, self.facts.mask_token] = -torch.inf
        return predictions(queries, logits, torch.cat(streams, dim=2) if streams else None)

    def _embedded(self, tokens: torch.Tensor, queries: list[Query | None]) -> torch.Tensor:
        """Input embeddings; soft ones where a query says how hard each token is."""
        table = self.decoder.weights.embedding
        embedded = table[tokens]
        for row, query in enumerate(queries):
            if query is not None and query.hardness is not None:
                count = len(query.tokens)
                share = torch.from_numpy(query.hardness).to(table)[:, None]
                embedded[row, :count] = soft_embedding(
                    embedded[row, :count], table[self.facts.mask_token], share
                )
        return embedded


def dense(cache: Cache) -> DenseCache:
    """*cache*, which must be a DenseCache; TypeError for any other."""
    if not isinstance(cache, DenseCache):
        rule = f"a DenseCache, got {type(cache).__name__}"
        raise TypeError(rule)
    return cache


def make_contiguous(queries: list[Query | None], cache: KvCache) -> None:
    """Move in every layer of *cache* what each row's query asks to have moved, in place."""
    moves = [None if query is None else query.moved for query in queries]
    longest = max((len(move.sources) for move in moves if move is not None), default=0)
    if not longest:
        return
    sources = np.zeros((len(moves), longest), dtype=np.int64)
    lengths = np.zeros((2, len(moves)), dtype=np.int64)
    for row, move in enumerate(moves):
        if move is not None:
            sources[row, : len(move.sources)] = move.sources
            lengths[:, row] = move.target, len(move.sources)
    device = cache.keys[0].device
    target, tokens = torch.from_numpy(lengths).to(device)
    for layer in (*cache.keys, *cache.values):
        move_kv(layer, torch.from_numpy(sources).to(device), target, tokens)


def asked_states(states: torch.Tensor, queries: list[Query | None]) -> torch.Tensor:
    """Of *states* [rows, widest, hidden] those that get logits, and no padding, [asked, hidden]."""
    places = [_asked_places(row, query, states.shape[1]) for row, query in enumerate(queries)]
    return states.flatten(0, 1)[torch.from_numpy(np.concatenate(places)).to(states.device)]


def predictions(
    queries: list[Query | None], logits: torch.Tensor, features: torch.Tensor | None
) -> list[Prediction | None]:
    """Each row's part of *logits* [asked, vocab] and *features* [rows, widest, width].

    Decoders look at all but the features on the CPU.
    """
    token, probability = (part.cpu() for part in _most_likely(logits))
    logits = logits.cpu()
    counts = [0 if query is None else len(query.tokens) - query.asked for query in queries]
    parts = zip(
        queries,
        token.split(counts),
        probability.double().split(counts),
        logits.split(counts),
        strict=True,
    )
    return [
        None
        if query is None
        else Prediction(
            query.left + query.asked,
            token.numpy(),
            probability.numpy(),
            logits,
            None if features is None else features[row, : len(query.tokens)],
        )
        for row, (query, token, probability, logits) in enumerate(parts)
    ]


def _asked_places(row: int, query: Query | None, widest: int) -> IntArray:
    """Which of the rows x *widest* states a row's query asks for."""
    if query is None:
        return np.arange(0)
    return row * widest + np.arange(query.asked, len(query.tokens))


def _most_likely(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`confidence` a few rows at a time, so that what it exponentiates stays small.

    At a vocabulary of 157,184 and 64 rows: 37 ms instead of 62, and 4 MiB instead of 80.
    """
    rows = max(1, CONFIDENCE_LOGITS // logits.shape[1])
    token, probability = zip(*map(confidence, logits.split(rows)), strict=True)
    return torch.cat(token), torch.cat(probability)


def soft_embedding(token: torch.Tensor, mask: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """A *share* of *token* and the rest of *mask*, as long as the same mix of their lengths.

    *token* is [n, hidden], *mask* [hidden], *share* [n, 1]. DMax: soft embeddings of the tokens
    that a block has revealed, top-1 only.
    """
    mixed = share * token + (1 - share) * mask
    expected = share * token.norm(dim=-1, keepdim=True) + (1 - share) * mask.norm()
    length: torch.Tensor = mixed.norm(dim=-1, keepdim=True)
    soft: torch.Tensor = mixed * (expected / length.clamp(min=1e-12))
    return soft


def facts_of(manifest: CheckpointManifest) -> ModelFacts:
    """What decoders must know of the checkpoint that *manifest* describes."""
    return ModelFacts(
        mask_token=manifest.mask_token,
        end_tokens=(manifest.end_token,),
        block_tokens=manifest.block_tokens,
        context_tokens=manifest.context_tokens,
        vocab=manifest.shape.vocab,
    )


def reference_model(
    checkpoint: Checkpoint, tapped: tuple[int, ...] = (), *, block_tokens: int | None = None
) -> ReferenceModel:
    """The model of a checkpoint, and its block if not another; *tapped* as in `ReferenceModel`."""
    facts = facts_of(checkpoint.manifest)
    if block_tokens is not None:
        facts = replace(facts, block_tokens=block_tokens)
    return ReferenceModel(checkpoint.decoder, facts, tapped)
