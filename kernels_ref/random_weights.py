"""Random weights of a decoder stack, distinct for every layer, as a model's are.

Entries are normal with variance 1 / input columns, so that activations keep their size through any
number of layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape

Draw = Callable[..., torch.Tensor]
"""Sizes to a random matrix; the last is the number of input columns."""


@dataclass(frozen=True)
class Adapters:
    """Gated adapters of one fused linear: *down* [rank x parts, in], one up [out, rank] a part."""

    down: torch.Tensor
    ups: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Projection:
    """A fused linear's *weight* [out, in], and the adapters beside it where there are any."""

    weight: torch.Tensor
    adapters: Adapters | None = None


@dataclass(frozen=True)
class FeedForward:
    """A SwiGLU: [2 ffn, hidden], gate first, then [hidden, ffn]."""

    gate_up: Projection
    down: Projection


@dataclass(frozen=True)
class ExpertWeights:
    """Router [experts, hidden], experts [experts, 2 ffn, hidden] and [experts, hidden, ffn]."""

    router: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    shared: FeedForward | None
    bias: torch.Tensor | None = None
    """[experts], added to the scores that experts are chosen by."""


@dataclass(frozen=True)
class LayerWeights:
    """Everything that one layer multiplies with."""

    attention_norm: torch.Tensor
    qkv: Projection
    query_key_norm: torch.Tensor | None
    """[query heads + kv heads, head_dim]: one row for every head that is turned."""
    output: Projection
    ffn_norm: torch.Tensor
    feed_forward: FeedForward | None
    experts: ExpertWeights | None


@dataclass(frozen=True)
class DecoderWeights:
    """Embedding and LM head, both [vocab, hidden], the layers, and the last norm."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    lm_head: torch.Tensor


def normal(dtype: torch.dtype, device: str, seed: int) -> Draw:
    """A source of random matrices that *seed* fixes."""
    generator = torch.Generator(device).manual_seed(seed)

    def draw(*sizes: int) -> torch.Tensor:
        empty = torch.empty(*sizes, dtype=dtype, device=device)
        return empty.normal_(std=sizes[-1] ** -0.5, generator=generator)

    return draw


def _projection(draw: Draw, outs: tuple[int, ...], columns: int, rank: int | None) -> Projection:
    """A linear of *outs* side by side, with an adapter for each where *rank* is given."""
    weight = draw(sum(outs), columns)
    if rank is None:
        return Projection(weight)
    ups = tuple(draw(out, rank) for out in outs)
    return Projection(weight, Adapters(draw(rank * len(outs), columns), ups))


def _feed_forward(draw: Draw, hidden: int, ffn: int, rank: int | None) -> FeedForward:
    """A dense SwiGLU."""
    return FeedForward(
        _projection(draw, (ffn, ffn), hidden, rank), _projection(draw, (hidden,), ffn, rank)
    )


def _experts(draw: Draw, hidden: int, shape: ExpertShape) -> ExpertWeights:
    """A router, its experts, and the shared ones as one wide SwiGLU."""
    shared = _feed_forward(draw, hidden, shape.shared * shape.ffn, None) if shape.shared else None
    return ExpertWeights(
        router=draw(shape.count, hidden),
        gate_up=draw(shape.count, 2 * shape.ffn, hidden),
        down=draw(shape.count, hidden, shape.ffn),
        shared=shared,
        bias=draw(shape.count) if shape.biased else None,
    )


def random_layer(draw: Draw, shape: PassShape, layer: LayerShape) -> LayerWeights:
    """One layer; norms are ones, as they are before training."""
    hidden, rank = shape.hidden, shape.adapter_rank
    ones = torch.ones_like(draw(hidden))
    turned = (layer.query_heads + layer.kv_heads, layer.head_dim)
    return LayerWeights(
        attention_norm=ones,
        qkv=_projection(draw, layer.projected_columns, hidden, rank),
        query_key_norm=ones.new_ones(turned) if layer.qk_norm else None,
        output=_projection(draw, (hidden,), layer.query_columns, rank),
        ffn_norm=ones.clone(),
        feed_forward=_feed_forward(draw, hidden, layer.ffn, rank) if layer.ffn else None,
        experts=_experts(draw, hidden, layer.experts) if layer.experts else None,
    )


def random_weights(shape: PassShape, draw: Draw) -> DecoderWeights:
    """All weights of *shape*."""
    embedding = draw(shape.vocab, shape.hidden)
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(random_layer(draw, shape, layer) for _, layer in shape.unrolled),
        final_norm=torch.ones_like(draw(shape.hidden)),
        lm_head=embedding if shape.tied else draw(shape.vocab, shape.hidden),
    )
