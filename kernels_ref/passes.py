"""A whole forward pass of a decoder stack, made of the reference kernels.

Nothing in it waits for a GPU once attention is prepared, so a pass can be captured in a CUDA graph
after one run that compiles its elementwise kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from kernels_ref.kernels.attention import AttentionPlan, attention, prepare
from kernels_ref.kernels.kv_cache import scatter_kv
from kernels_ref.kernels.linear import linear
from kernels_ref.kernels.lm_head import confidence, lm_head
from kernels_ref.kernels.lora import add_gated_lora
from kernels_ref.kernels.moe import grouped_experts, route
from kernels_ref.kernels.rms_norm import add_rms_norm, rms_norm
from kernels_ref.kernels.rotary import rotary
from kernels_ref.kernels.swiglu import swiglu
from kernels_ref.kernels.visibility import Visibility, sliding
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.random_weights import (
    DecoderWeights,
    Draw,
    ExpertWeights,
    FeedForward,
    LayerWeights,
    Projection,
    normal,
    random_weights,
)

KeyValues = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each [rows, places, kv heads, head_dim]."""
Store = Callable[[torch.Tensor, torch.Tensor], KeyValues]
"""The new keys and values in, all that the queries may see out."""


@dataclass(frozen=True)
class PassOutput:
    """What a pass says about the rows that its LM head ran on."""

    logits: torch.Tensor
    """[n, vocab] in the dtype of the weights."""
    token: torch.Tensor
    """The most likely token of each row, int64 [n]."""
    probability: torch.Tensor
    """Its probability, float32 [n]."""


@dataclass(frozen=True)
class Batch:
    """What the layers of one pass share."""

    rows: int
    queries: int
    positions: torch.Tensor
    """[rows, queries], absolute."""
    prefix_tokens: torch.Tensor
    query_tokens: torch.Tensor
    """Queries of each row, [rows]; those beyond are padding."""
    gate: torch.Tensor | None
    """[rows x queries] of 0 and 1, or no adapters."""


@dataclass(frozen=True)
class KvCache:
    """Keys and values of every layer, each [rows, capacity, kv heads, head_dim]."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]

    @property
    def capacity_tokens(self) -> int:
        """Positions that a row has room for."""
        return self.keys[0].shape[1]


class Decoder:
    """A decoder of *shape* with *weights*."""

    def __init__(self, shape: PassShape, weights: DecoderWeights) -> None:
        """Take the weights as they are."""
        self.shape = shape
        self.weights = weights

    def new_cache(self, rows: int, capacity_tokens: int) -> KvCache:
        """Room for *rows* sequences, all zeros."""
        return self._cache(rows, capacity_tokens, self.weights.embedding.new_zeros)

    def _cache(self, rows: int, capacity_tokens: int, fill: Draw) -> KvCache:
        sizes = [(rows, capacity_tokens, s.kv_heads, s.head_dim) for _, s in self.shape.unrolled]
        keys, values = (tuple(fill(*size) for size in sizes) for _ in range(2))
        return KvCache(keys, values)

    def plans(
        self, visibility: Visibility, queries: int, cache: KvCache | None
    ) -> list[AttentionPlan]:
        """How each of the shape's layers attends, windows included; the same for any layer of it.

        *queries* is the padded count. Without a cache the queries see each other alone. Reads
        lengths back from a GPU, so it stays out of captures.
        """
        keys = queries if cache is None else cache.capacity_tokens
        return self.plans_over(visibility, queries, keys)

    def plans_over(self, visibility: Visibility, queries: int, keys: int) -> list[AttentionPlan]:
        """`plans` over so many *keys* a row, wherever they lie."""
        return [
            prepare(
                sliding(visibility, layer.window_tokens) if layer.window_tokens else visibility,
                rows=visibility.rows,
                queries=queries,
                keys=keys,
                query_heads=layer.query_heads,
                kv_heads=layer.kv_heads,
            )
            for layer in self.shape.layers
        ]

    @torch.no_grad()
    def forward(  # noqa: PLR0913 (what a pass is given)
        self,
        tokens: torch.Tensor,
        visibility: Visibility,
        *,
        cache: KvCache,
        plans: Sequence[AttentionPlan],
        logit_rows: torch.Tensor | None = None,
        gate: torch.Tensor | None = None,
    ) -> PassOutput:
        """Run *tokens* [rows, queries] behind their rows' cached prefixes; their KV is stored.

        *logit_rows*, indices into the rows x queries tokens, get logits: all when absent. *gate*
        [rows, queries] switches the adapters per token; without it they do not run.
        """
        embedded = self.weights.embedding[tokens]
        states = self.states(embedded, visibility, plans=plans, cache=cache, gate=gate)
        flat = states.flatten(0, 1)
        asked = flat if logit_rows is None else flat[logit_rows]
        logits = lm_head(asked, self.weights.lm_head)
        return PassOutput(logits, *confidence(logits))

    def states(  # noqa: PLR0913 (what a pass is given)
        self,
        embedded: torch.Tensor,
        visibility: Visibility,
        *,
        plans: Sequence[AttentionPlan],
        positions: torch.Tensor | None = None,
        cache: KvCache | None = None,
        gate: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Normalised states behind the last layer of *embedded*, both [rows, queries, hidden].

        *positions* [rows, queries] are absolute; absent, they follow the rows' prefixes. Without a
        *cache* queries see one another by the rule alone, and gradients flow.
        """
        return self.tapped_states(
            embedded, visibility, plans=plans, positions=positions, cache=cache, gate=gate
        )[0]

    def tapped_states(  # noqa: PLR0913 (what a pass is given)
        self,
        embedded: torch.Tensor,
        visibility: Visibility,
        *,
        plans: Sequence[AttentionPlan],
        positions: torch.Tensor | None = None,
        cache: KvCache | None = None,
        gate: torch.Tensor | None = None,
        tapped: Sequence[int] = (),
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """`states`, and the residual streams behind the *tapped* layers, counted from 1.

        Each stream is [rows, queries, hidden], in the order of the layers.
        """
        rows, queries, _ = embedded.shape
        prefix_tokens = visibility.prefix_tokens
        if positions is None:
            positions = prefix_tokens[:, None] + torch.arange(queries, device=embedded.device)
        on = None if gate is None else gate.flatten()
        batch = Batch(rows, queries, positions, prefix_tokens, visibility.query_tokens, on)
        stores = [
            _as_they_are if cache is None else partial(cached, cache, index, batch)
            for index in range(len(self.weights.layers))
        ]
        flat, streams = self._layers(embedded.flatten(0, 1), batch, stores, plans, tapped)
        return flat.view(embedded.shape), [stream.view(embedded.shape) for stream in streams]

    def _layers(
        self,
        embedded: torch.Tensor,
        batch: Batch,
        stores: Sequence[Store],
        plans: Sequence[AttentionPlan],
        tapped: Sequence[int] = (),
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Of all tokens the normalised states behind the last layer, [rows x queries, hidden].

        And the residual streams behind the *tapped* layers; no other is kept.
        """
        residual, streams = embedded, list[torch.Tensor]()
        change: torch.Tensor | None = None
        layers = zip(self.shape.unrolled, self.weights.layers, strict=True)
        for index, ((group, shape), weights) in enumerate(layers):
            x, residual = self._into_block(change, residual, weights.attention_norm)
            if index in tapped:
                streams.append(residual)
            attended = self._attend(x, shape, weights, batch, stores[index], plans[group])
            x, residual = self._into_block(attended, residual, weights.ffn_norm)
            change = self._mix(x, shape, weights, batch)
        states, residual = self._into_block(change, residual, self.weights.final_norm)
        if len(self.weights.layers) in tapped:
            streams.append(residual)
        return states, streams

    def _attend(  # noqa: PLR0913, PLR0917 (a layer's attention needs all of them)
        self,
        x: torch.Tensor,
        shape: LayerShape,
        weights: LayerWeights,
        batch: Batch,
        store: Store,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Attention of one layer over what *store* makes of the new keys and values."""
        query, key, value = self._heads(self._project(x, weights.qkv, batch), shape, weights, batch)
        out = self._over_keys(query, key, value, store, plan)
        return self._project(out.reshape(len(x), -1), weights.output, batch)

    def _over_keys(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        store: Store,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Attention alone, the new keys and values stored first."""
        return attention(query, *store(key, value), plan)

    def _heads(
        self, qkv: torch.Tensor, shape: LayerShape, weights: LayerWeights, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value heads, [rows, queries, heads, head_dim]; the first two turned."""
        heads = qkv.view(batch.rows, batch.queries, -1, shape.head_dim)
        turned = shape.query_heads + shape.kv_heads
        query_key = rotary(
            heads[:, :, :turned],
            batch.positions,
            weights.query_key_norm,
            theta=self.shape.rotary_theta,
            rotary_dim=self.shape.rotary_dim,
        )
        value = heads[:, :, -shape.kv_heads :]
        return query_key[:, :, : shape.query_heads], query_key[:, :, shape.query_heads :], value

    def _mix(
        self, x: torch.Tensor, shape: LayerShape, weights: LayerWeights, batch: Batch
    ) -> torch.Tensor:
        """The feed-forward part of one layer: dense, experts, or their sum."""
        parts = []
        if weights.feed_forward is not None:
            parts.append(self._feed_forward(x, weights.feed_forward, batch))
        if weights.experts is not None and shape.experts is not None:
            parts.append(self._experts(x, shape.experts, weights.experts, batch))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def _feed_forward(self, x: torch.Tensor, weights: FeedForward, batch: Batch) -> torch.Tensor:
        """A dense SwiGLU."""
        inner = self._gated(self._project(x, weights.gate_up, batch))
        return self._project(inner, weights.down, batch)

    def _gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """The gate between the two products of a feed-forward."""
        return swiglu(gate_up)

    def _experts(
        self, x: torch.Tensor, shape: ExpertShape, weights: ExpertWeights, batch: Batch
    ) -> torch.Tensor:
        """Routed experts, and the shared ones where there are any."""
        experts, shares = route(linear(x, weights.router), shape.router, weights.bias)
        routed = grouped_experts(x, experts, shares, weights.gate_up, weights.down)
        if weights.shared is None:
            return routed
        return routed + self._feed_forward(x, weights.shared, batch)

    def _into_block(
        self, change: torch.Tensor | None, residual: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(normalised input, residual stream), once the last block's *change*, if any, is added."""
        if change is None:
            return rms_norm(residual, weight), residual
        return add_rms_norm(change, residual, weight)

    def _project(self, x: torch.Tensor, projection: Projection, batch: Batch) -> torch.Tensor:
        """A fused linear, with its adapters onto it where the pass runs them."""
        base = linear(x, projection.weight)
        adapters = projection.adapters
        if adapters is None or batch.gate is None:
            return base
        scaling = self.shape.adapter_scaling
        return add_gated_lora(base, x, adapters.down, adapters.ups, batch.gate, scaling)


class RandomDecoder(Decoder):
    """A decoder of *shape* whose weights *seed* fixes."""

    def __init__(
        self, shape: PassShape, *, dtype: torch.dtype, device: str = "cpu", seed: int = 0
    ) -> None:
        """Draw the weights on *device*."""
        self._draw = normal(dtype, device, seed)
        super().__init__(shape, random_weights(shape, self._draw))

    def new_cache(self, rows: int, capacity_tokens: int) -> KvCache:
        """Room for *rows* sequences, filled as if by earlier tokens."""
        return self._cache(rows, capacity_tokens, self._draw)


def _as_they_are(key: torch.Tensor, value: torch.Tensor) -> KeyValues:
    return key, value


def cached(
    cache: KvCache, index: int, batch: Batch, key: torch.Tensor, value: torch.Tensor
) -> KeyValues:
    """The cache of layer *index*, in which the new keys and values are put first."""
    kept = cache.keys[index], cache.values[index]
    for whole, new in zip(kept, (key, value), strict=True):
        scatter_kv(whole, new, batch.prefix_tokens, batch.query_tokens)
    return kept
