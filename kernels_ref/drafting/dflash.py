"""DFlash's drafter: a block of masks filled in one pass behind the target's own features.

Every layer takes the fused features of the places that the target has been at as keys and values,
beside those of the block, which sees all of itself. Embedding and LM head are the target's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field

from kernels_ref.decoding.packed import Queries, packed
from kernels_ref.decoding.query import Cache, Prediction
from kernels_ref.decoding.reference import asked_states, dense, predictions
from kernels_ref.drafting.model import OwnLayers
from kernels_ref.kernels.attention import AttentionPlan
from kernels_ref.kernels.kv_cache import scatter_kv
from kernels_ref.kernels.linear import linear
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.rms_norm import rms_norm
from kernels_ref.kernels.rotary import rotary
from kernels_ref.kernels.visibility import Visibility
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import Batch, Decoder, KeyValues
from kernels_ref.random_weights import DecoderWeights, Draw, LayerWeights, random_layer


@dataclass(frozen=True)
class DFlashShape:
    """The drafter's layers, as wide as its target, and what it takes from the target."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    hidden: int
    layer: LayerShape
    tapped: tuple[int, ...]
    """Layers of the target whose states are fused, counted from 1."""
    rotary_theta: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def __post_init__(self) -> None:
        """Refuse a drafter without layers."""
        if self.layer.count < 1:
            rule = f"layer.count is at least 1, got {self.layer.count}"
            raise ValueError(rule)

    @property
    def stack(self) -> PassShape:
        """Its layers; the vocabulary is the target's, and none of it is here."""
        return PassShape(self.hidden, 1, (self.layer,), rotary_theta=self.rotary_theta)


@dataclass(frozen=True)
class DFlashWeights:
    """All that is learned."""

    fuse: torch.Tensor
    """[hidden, hidden x tapped layers]"""
    context_norm: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor


def random_dflash(shape: DFlashShape, draw: Draw) -> DFlashWeights:
    """Weights before training."""
    layers = tuple(random_layer(draw, shape.stack, shape.layer) for _ in range(shape.layer.count))
    ones = torch.ones_like(layers[0].attention_norm)
    fuse = draw(shape.hidden, shape.hidden * len(shape.tapped))
    return DFlashWeights(fuse, ones, layers, ones.clone())


class DFlash(Decoder):
    """The drafter's layers, and how features become keys and values of each."""

    def __init__(self, shape: DFlashShape, weights: DFlashWeights, target: Decoder) -> None:
        """Take the weights; embedding and LM head are those of *target*."""
        self.own = weights
        self.tapped = shape.tapped
        shared = target.weights
        whole = DecoderWeights(shared.embedding, weights.layers, weights.final_norm, shared.lm_head)
        super().__init__(shape.stack, whole)

    def context(self, features: torch.Tensor, positions: torch.Tensor) -> list[KeyValues]:
        """Keys and values in every layer of *features* [rows, places, width] at *positions*."""
        fused = rms_norm(linear(features, self.own.fuse), self.own.context_norm)
        shape = self.shape.layers[0]
        split = (shape.kv_columns, shape.kv_columns)
        out = []
        for layer in self.own.layers:
            both = linear(fused, layer.qkv.weight[shape.query_columns :])
            key, value = (
                part.unflatten(2, (shape.kv_heads, shape.head_dim))
                for part in both.split(split, dim=2)
            )
            norm = layer.query_key_norm
            turned = rotary(
                key,
                positions,
                None if norm is None else norm[shape.query_heads :],
                theta=self.shape.rotary_theta,
            )
            out.append((turned, value))
        return out

    def states_behind(
        self,
        context: Sequence[KeyValues],
        embedded: torch.Tensor,
        visibility: Visibility,
        *,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        """`states` behind a *context* of every layer that is in no cache, for training.

        The keys that *visibility* speaks of are the context's places, then those of the queries.
        """
        rows, queries, _ = embedded.shape
        keys = context[0][0].shape[1] + queries
        lengths = visibility.prefix_tokens, visibility.query_tokens
        batch = Batch(rows, queries, positions, *lengths, gate=None)
        stores = [partial(_behind, before) for before in context]
        plans = self.plans_over(visibility, queries, keys)
        return self._layers(embedded.flatten(0, 1), batch, stores, plans)[0].view(embedded.shape)


def _behind(before: KeyValues, key: torch.Tensor, value: torch.Tensor) -> KeyValues:
    """The new keys and values behind those *before* them."""
    return torch.cat([before[0], key], dim=1), torch.cat([before[1], value], dim=1)


class DFlashDrafter(OwnLayers):
    """Answers draft queries of decoders."""

    def __init__(self, decoder: DFlash, mask_token: int) -> None:
        """Take the drafter; the *mask_token* is never predicted."""
        super().__init__(decoder, decoder.tapped, mask_token)
        self.decoder = decoder

    @torch.no_grad()
    def forward(self, queries: Queries, cache: Cache) -> list[Prediction | None]:
        """One dense forward; a query's features are of the last places before it."""
        kv = dense(cache).kv
        self._take_in(queries, cache)
        asked = packed(queries, mask_token=self._mask_token, capacity_tokens=kv.capacity_tokens)
        plans: list[AttentionPlan] = self.decoder.plans(asked.visibility, asked.widest, kv)
        states = self.decoder.states(
            self.decoder.weights.embedding[asked.tokens],
            asked.visibility,
            plans=plans,
            positions=asked.positions,
            cache=kv,
        )
        logits = lm_head(asked_states(states, queries), self.decoder.weights.lm_head)
        logits[:, self._mask_token] = -torch.inf
        return predictions(queries, logits, None)

    def _take_in(self, queries: Queries, cache: Cache) -> None:
        """Store the keys and values of all features that the queries bring."""
        given = [None if query is None else query.features for query in queries]
        counts = torch.tensor([0 if features is None else len(features) for features in given])
        if not counts.any():
            return
        embedding = self.decoder.weights.embedding
        width = embedding.shape[1] * len(self.tapped)
        features = embedding.new_zeros(len(given), int(counts.max()), width)
        for row, one in enumerate(given):
            if one is not None:
                features[row, : len(one)] = one
        left = torch.tensor([0 if query is None else query.left for query in queries]) - counts
        positions = left[:, None] + torch.arange(features.shape[1])
        kv = dense(cache).kv
        for layer, new in enumerate(self.decoder.context(features, positions)):
            for whole, part in zip((kv.keys[layer], kv.values[layer]), new, strict=True):
                scatter_kv(whole, part, left, counts)
