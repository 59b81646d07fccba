"""Small random float64 models, decoding by any policy, and the KV that decoding leaves behind."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kernels_ref.decoders import policy
from kernels_ref.decoding.batch import BatchForwards, decode_batch
from kernels_ref.decoding.query import Cache, IntArray, Model, ModelFacts, Prediction, Query
from kernels_ref.decoding.reference import DenseCache, ReferenceModel
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.kernels.moe import Router
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import RandomDecoder
from tests.kernels_ref.decoders.hashed import HashedCache

MASK, ENDS, VOCAB = 0, (1, 9), 40
LAYER = LayerShape(2, query_heads=4, kv_heads=2, head_dim=8, ffn=24, qk_norm=True)


def _experts(score: str) -> LayerShape:
    router = (
        Router(2, scaling=1.5)
        if score == "softmax"
        else Router(2, score="sigmoid", groups=2, groups_used=1, scaling=2.0)
    )
    return dataclasses.replace(LAYER, ffn=None, experts=ExpertShape(4, 12, router, shared=1))


LAYERS = {
    "dense": (LAYER,),
    "softmax experts": (dataclasses.replace(LAYER, count=1), _experts("softmax")),
    "sigmoid experts": (_experts("sigmoid"),),
}


@functools.cache
def random_model(name: str = "dense", *, seed: int = 1, sharpness: float = 2.5) -> ReferenceModel:
    """A model of LAYERS that is about as sure of itself as a trained one."""
    shape = PassShape(hidden=24, vocab=VOCAB, layers=LAYERS[name], rotary_theta=1e3)
    decoder = RandomDecoder(shape, dtype=torch.float64, seed=seed)
    decoder.weights = dataclasses.replace(
        decoder.weights, lm_head=decoder.weights.lm_head * sharpness
    )
    return ReferenceModel(decoder, ModelFacts(MASK, ENDS, 8, 128, VOCAB))


@dataclass(frozen=True)
class Request:
    """A prompt and how much may follow it."""

    prompt: tuple[int, ...]
    output_tokens: int


def requests_of(
    lengths: Iterable[tuple[int, int]], *, seed: int = 0, vocab: int = VOCAB
) -> list[Request]:
    """Random prompts, masks and end tokens among them, of (prompt, output) *lengths*."""
    rng = np.random.default_rng(seed)
    return [
        Request(tuple(rng.integers(0, vocab, prompt).tolist()), output)
        for prompt, output in lengths
    ]


@dataclass(frozen=True)
class WatchedCache:
    """A cache that says where each row's KV is, also once the row has left."""

    inner: Cache
    rows: tuple[int, ...]
    found: dict[int, tuple[Cache, int]]

    def keep(self, rows: list[int]) -> "WatchedCache":
        """These rows alone."""
        return watched(self.inner.keep(rows), tuple(self.rows[row] for row in rows), self.found)


def watched(
    cache: Cache, rows: tuple[int, ...], found: dict[int, tuple[Cache, int]]
) -> WatchedCache:
    """Note in *found* where *rows* are now."""
    found.update({row: (cache, place) for place, row in enumerate(rows)})
    return WatchedCache(cache, rows, found)


class WatchedModel:
    """A model whose last cache stays within reach."""

    def __init__(self, inner: Model) -> None:
        """Watch *inner*."""
        self.inner, self.facts = inner, inner.facts
        self.found: dict[int, tuple[Cache, int]] = {}

    def new_cache(self, rows: int, capacity_tokens: int) -> WatchedCache:
        """A watched one."""
        inner = self.inner.new_cache(rows, capacity_tokens)
        return watched(inner, tuple(range(rows)), self.found)

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The inner model's."""
        assert isinstance(cache, WatchedCache)
        return self.inner.forward(queries, cache.inner)

    def kv(self, row: int, end: int) -> npt.NDArray[Any]:
        """A row's KV before place *end*, [places, all layers' keys and values]."""
        return kv_of(*self.found[row], end)


def kv_of(cache: Cache, row: int, end: int) -> npt.NDArray[Any]:
    """What *cache* holds of a row before place *end*, [places, all layers' keys and values]."""
    if isinstance(cache, HashedCache):
        return cache.keys[row, :end]
    assert isinstance(cache, DenseCache)
    layers = (*cache.kv.keys, *cache.kv.values)
    return torch.stack([layer[row, :end] for layer in layers], dim=1).flatten(1).numpy()


@dataclass(frozen=True)
class Decoded:
    """A batch when it is over."""

    sequences: list[TokenSequence]
    forwards: BatchForwards
    model: WatchedModel

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """All that is to be equal between two ways to decode: of each row, tokens and record."""
        return [outcome(sequence) for sequence in self.sequences]


def outcome(sequence: TokenSequence) -> dict[str, Any]:
    """Tokens and record of one sequence."""
    return {
        "tokens": sequence.tokens.tolist(),
        "forwards": [vars(row) for row in sequence.record.forwards],
        "blocks": [vars(row) for row in sequence.record.blocks],
    }


def windows(sequence: TokenSequence) -> list[tuple[int, int]]:
    """The live blocks of each forward behind the prefill."""
    return [
        (row.window_left, row.window_right)
        for row in sequence.record.forwards
        if row.kind != "prefill"
    ]


def decoded(
    model: Model,
    name: str,
    settings: Mapping[str, Any],
    requests: Sequence[Request],
    block_tokens: int = 8,
    numbers: Sequence[int] | None = None,
) -> Decoded:
    """*requests* decoded together by policy *name*; *numbers* are their request numbers."""
    decoder = policy(name)
    sequences = [
        TokenSequence(
            request.prompt,
            facts=model.facts,
            block_tokens=block_tokens,
            output_tokens=request.output_tokens,
            request=number,
            from_prompt=decoder.PROMPT != "block-causal",
        )
        for number, request in zip(numbers or range(len(requests)), requests, strict=True)
    ]
    watch = WatchedModel(model)
    group = decoder.decode(sequences, decoder.Parameters(**settings))
    return Decoded(sequences, decode_batch(watch, sequences, group), watch)


def horizon_of(name: str, sequence: TokenSequence) -> IntArray:
    """What every place sees once all is final: block-causal, prefix-full, or causal."""
    places, block = np.arange(len(sequence.tokens)), sequence.block_tokens
    if name == "block-entropy":
        return places + 1
    if name == "d2f":
        prompt = sequence.prompt_tokens
        behind = prompt + ((places - prompt) // block + 1) * block
        return np.where(places < prompt, prompt, behind)
    return (places // block + 1) * block


def encoded(model: Model, name: str, sequence: TokenSequence, end: int) -> npt.NDArray[Any]:
    """KV of the finished sequence before place *end*, encoded at one go."""
    cache = model.new_cache(1, len(sequence.tokens))
    horizon = horizon_of(name, sequence)[:end]
    model.forward([Query("prefill", 0, sequence.tokens[:end].copy(), horizon, end)], cache)
    return kv_of(cache, 0, end)
