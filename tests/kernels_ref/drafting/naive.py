"""Transformers a place at a time, written from their equations, for vectors of float64.

No cache, no mask and no batch: whoever asks says which places each place sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernels_ref.drafting.dflash import DFlashShape, DFlashWeights
from kernels_ref.drafting.eagle3 import Eagle3Shape, Eagle3Weights
from kernels_ref.pass_shape import LayerShape
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import FeedForward, LayerWeights, Projection

EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class Heads:
    """Of one place: query heads and key heads, turned, and value heads, each [heads, head_dim]."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor


@dataclass(frozen=True, eq=False)
class Node:
    """What EAGLE-3 reads at a place: the next token, a position, a feature [hidden]."""

    token: int
    position: int
    feature: torch.Tensor


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A vector, or each of several, over its root mean square."""
    return x / (x.square().mean(dim=-1, keepdim=True) + EPSILON).sqrt() * weight


def turned(heads: torch.Tensor, position: int, theta: float) -> torch.Tensor:
    """Numbers i and i + half of each head as a complex one, multiplied by e^(i angle)."""
    half = heads.shape[-1] // 2
    angles = position * theta ** (-torch.arange(half, dtype=torch.float64) / half)
    pairs = torch.complex(heads[:, :half], heads[:, half:])
    out = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([out.real, out.imag], dim=1)


def merged(projection: Projection, scaling: float) -> torch.Tensor:
    """W + scaling x up x down, for each of the projections that are fused in one."""
    if projection.adapters is None:
        return projection.weight
    ups, down = projection.adapters.ups, projection.adapters.down
    rank = ups[0].shape[1]
    parts = [up @ down[i * rank : (i + 1) * rank] for i, up in enumerate(ups)]
    return projection.weight + scaling * torch.cat(parts)


def heads_of(
    x: torch.Tensor,
    qkv: torch.Tensor,
    weights: LayerWeights,
    shape: LayerShape,
    position: int,
    theta: float,
) -> Heads:
    """Of the vector *x* under the fused projection *qkv*."""
    every = (qkv @ x).view(-1, shape.head_dim)
    query, key, value = every.split([shape.query_heads, shape.kv_heads, shape.kv_heads])
    if weights.query_key_norm is not None:
        query = normed(query, weights.query_key_norm[: shape.query_heads])
        key = normed(key, weights.query_key_norm[shape.query_heads :])
    return Heads(turned(query, position, theta), turned(key, position, theta), value)


def attended(query: torch.Tensor, seen: Sequence[Heads]) -> torch.Tensor:
    """What the heads of one place take from the places that they see, side by side."""
    out = []
    for head, vector in enumerate(query):
        group = head * len(seen[0].key) // len(query)
        scores = torch.stack([vector @ place.key[group] for place in seen]) / len(vector) ** 0.5
        shares = scores.exp() / scores.exp().sum()
        out.append(sum((s * p.value[group] for s, p in zip(shares, seen, strict=True)), vector * 0))
    return torch.cat(out)


def swiglu(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """SiLU of the gate times the rest, back to the width of *x*."""
    gate, up = (gate_up @ x).chunk(2)
    return down @ (gate / (1 + (-gate).exp()) * up)


def streams(
    decoder: Decoder,
    tokens: Sequence[int],
    sees: Callable[[int, int], bool],
    on: Sequence[bool] | None = None,
) -> torch.Tensor:
    """Residual streams behind every layer, [layers, places, hidden]; *on* has the adapters."""
    scaling, theta = decoder.shape.adapter_scaling, decoder.shape.rotary_theta
    gates = [False] * len(tokens) if on is None else on

    def at(place: int, projection: Projection) -> torch.Tensor:
        return merged(projection, scaling) if gates[place] else projection.weight

    places, found = range(len(tokens)), []
    stream = [decoder.weights.embedding[token] for token in tokens]
    for (_, shape), weights in zip(decoder.shape.unrolled, decoder.weights.layers, strict=True):
        inputs = [normed(x, weights.attention_norm) for x in stream]
        heads = [heads_of(inputs[i], at(i, weights.qkv), weights, shape, i, theta) for i in places]
        for i in places:
            taken = attended(heads[i].query, [heads[j] for j in places if sees(i, j)])
            stream[i] = stream[i] + at(i, weights.output) @ taken
        feed_forward = dense(weights)
        for i in places:
            gate_up, down = at(i, feed_forward.gate_up), at(i, feed_forward.down)
            stream[i] = stream[i] + swiglu(normed(stream[i], weights.ffn_norm), gate_up, down)
        found.append(torch.stack(stream))
    return torch.stack(found)


def logits(decoder: Decoder, stream: torch.Tensor) -> torch.Tensor:
    """Of the stream [.., hidden] behind the last layer."""
    return normed(stream, decoder.weights.final_norm) @ decoder.weights.lm_head.T


def causal(query: int, key: int) -> bool:
    """Every place sees those up to itself."""
    return key <= query


def dense(weights: LayerWeights) -> FeedForward:
    """The feed-forward of a layer without experts."""
    assert weights.feed_forward is not None
    return weights.feed_forward


def eagle3_state(
    own: Eagle3Weights, shape: Eagle3Shape, embedding: torch.Tensor, path: Sequence[Node]
) -> torch.Tensor:
    """State of the last node of *path*, which sees all of it."""
    theta = shape.rotary_theta
    heads = []
    for node in path:
        token = normed(embedding[node.token], own.embedding_norm)
        both = torch.cat([token, normed(node.feature, own.layer.attention_norm)])
        qkv = own.layer.qkv.weight
        heads.append(heads_of(both, qkv, own.layer, shape.layer, node.position, theta))
    return _behind_attention(own.layer, path[-1].feature, attended(heads[-1].query, heads))


def dflash_states(
    own: DFlashWeights,
    shape: DFlashShape,
    features: torch.Tensor,
    block: torch.Tensor,
) -> torch.Tensor:
    """Normalised states of a *block* of embeddings behind the *features* of places 0, 1, .. .

    Every layer has the features, fused, as keys and values; the block sees them and all of itself.
    """
    places, theta = len(features), shape.rotary_theta
    fused = [normed(own.fuse @ feature, own.context_norm) for feature in features]
    stream = list(block)
    for weights in own.layers:
        qkv = weights.qkv.weight
        before = [
            heads_of(x, qkv, weights, shape.layer, place, theta) for place, x in enumerate(fused)
        ]
        here = [
            heads_of(normed(x, weights.attention_norm), qkv, weights, shape.layer, place, theta)
            for place, x in enumerate(stream, places)
        ]
        stream = [
            _behind_attention(weights, x, attended(heads.query, [*before, *here]))
            for x, heads in zip(stream, here, strict=True)
        ]
    return normed(torch.stack(stream), own.final_norm)


def _behind_attention(
    weights: LayerWeights, residual: torch.Tensor, taken: torch.Tensor
) -> torch.Tensor:
    """The stream once attention and feed-forward are added."""
    stream = residual + weights.output.weight @ taken
    feed_forward = dense(weights)
    gate_up, down = feed_forward.gate_up.weight, feed_forward.down.weight
    return stream + swiglu(normed(stream, weights.ffn_norm), gate_up, down)
