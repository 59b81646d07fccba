"""EAGLE-3's drafter: one layer over tokens and the target's fused features (Li et al., 2025).

Place i takes the token at i + 1 and a feature of place i, and predicts the token at i + 2. The
feature is the target's, three layers fused, where the target has been, and the drafter's own state
of the place before where it has not. Only frequent tokens are drafted; a map says which.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

import torch
from pydantic import ConfigDict, Field

from kernels_ref.decoding.packed import Queries, packed
from kernels_ref.decoding.query import Cache, Prediction
from kernels_ref.decoding.reference import asked_states, dense, predictions
from kernels_ref.drafting.model import OwnLayers
from kernels_ref.kernels.attention import AttentionPlan
from kernels_ref.kernels.linear import linear
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.rms_norm import add_rms_norm, rms_norm
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import Batch, Decoder, Store, cached
from kernels_ref.random_weights import DecoderWeights, Draw, LayerWeights, Projection, random_layer

LEAST_TAPPED: Final = 2


@dataclass(frozen=True)
class Eagle3Shape:
    """The drafter's only layer, as wide as its target, and what it takes from the target."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    hidden: int
    layer: LayerShape
    draft_vocab: int
    """Tokens that it can draft."""
    tapped: tuple[int, ...]
    """Layers of the target whose states are fused, counted from 1."""
    rotary_theta: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def __post_init__(self) -> None:
        """Refuse more layers than one, and features as wide as the drafter's own states."""
        if len(self.tapped) < LEAST_TAPPED:
            rule = f"tapped is {LEAST_TAPPED} layers or more, got {len(self.tapped)}"
            raise ValueError(rule)
        if self.layer.count != 1:
            rule = f"layer.count is 1, got {self.layer.count}"
            raise ValueError(rule)


@dataclass(frozen=True)
class Eagle3Weights:
    """All that is learned; embedding is the target's."""

    fuse: torch.Tensor
    """[hidden, hidden x tapped layers]"""
    embedding_norm: torch.Tensor
    layer: LayerWeights
    """Its first projection reads token and feature side by side, [.., 2 hidden]."""
    final_norm: torch.Tensor
    lm_head: torch.Tensor
    """[draft_vocab, hidden]"""


def random_eagle3(shape: Eagle3Shape, draw: Draw) -> Eagle3Weights:
    """Weights before training."""
    hidden = shape.hidden
    layer = random_layer(draw, PassShape(hidden, shape.draft_vocab, (shape.layer,)), shape.layer)
    wide = Projection(draw(sum(shape.layer.projected_columns), 2 * hidden))
    ones = torch.ones_like(layer.attention_norm)
    return Eagle3Weights(
        fuse=draw(hidden, hidden * len(shape.tapped)),
        embedding_norm=ones,
        layer=dataclasses.replace(layer, qkv=wide),
        final_norm=ones.clone(),
        lm_head=draw(shape.draft_vocab, hidden),
    )


class Eagle3(Decoder):
    """The drafter as a decoder of one layer with another way in."""

    def __init__(self, shape: Eagle3Shape, weights: Eagle3Weights, embedding: torch.Tensor) -> None:
        """Take the weights, and the target's *embedding* [vocab, hidden]."""
        self.own = weights
        self.tapped = shape.tapped
        stack = PassShape(
            shape.hidden, shape.draft_vocab, (shape.layer,), rotary_theta=shape.rotary_theta
        )
        whole = DecoderWeights(embedding, (weights.layer,), weights.final_norm, weights.lm_head)
        super().__init__(stack, whole)

    def fused(self, features: torch.Tensor) -> torch.Tensor:
        """The target's *features* [.., hidden x tapped layers] as one [.., hidden]."""
        return linear(features, self.own.fuse)

    def drafted(
        self,
        tokens: torch.Tensor,
        hidden: torch.Tensor,
        batch: Batch,
        store: Store,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """States [rows, queries, hidden] of *tokens* [rows, queries] and *hidden*, one a token.

        They stand in for *hidden* of the next place; `logits` reads drafts off them.
        """
        layer, feature = self.own.layer, hidden.flatten(0, 1)
        embedded = rms_norm(self.weights.embedding[tokens].flatten(0, 1), self.own.embedding_norm)
        both = torch.cat([embedded, rms_norm(feature, layer.attention_norm)], dim=1)
        attended = self._attend(both, self.shape.layers[0], layer, batch, store, plan)
        x, residual = add_rms_norm(attended, feature, layer.ffn_norm)
        out = residual + self._mix(x, self.shape.layers[0], layer, batch)
        return out.view(hidden.shape)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [.., draft_vocab] of *states* [.., hidden]."""
        return lm_head(rms_norm(states, self.own.final_norm), self.own.lm_head)


class Eagle3Drafter(OwnLayers):
    """Answers draft queries of decoders over the vocabulary of the target."""

    def __init__(self, decoder: Eagle3, draft_to_target: torch.Tensor, mask_token: int) -> None:
        """*draft_to_target* [draft_vocab] is the token of the target that each draft token is."""
        super().__init__(decoder, decoder.tapped, mask_token)
        self.decoder = decoder
        self._draft_to_target = draft_to_target

    @torch.no_grad()
    def forward(self, queries: Queries, cache: Cache) -> list[Prediction | None]:
        """One dense forward; a query has one feature a token, the target's or of its own."""
        kv = dense(cache).kv
        asked = packed(queries, mask_token=self._mask_token, capacity_tokens=kv.capacity_tokens)
        batch = asked.batch
        states = self.decoder.drafted(
            asked.tokens,
            self._features(queries, asked.widest),
            batch,
            partial(cached, kv, 0, batch),
            self.decoder.plans(asked.visibility, asked.widest, kv)[0],
        )
        drafted = self.decoder.logits(asked_states(states, queries))
        vocab = len(self.decoder.weights.embedding)
        logits = drafted.new_full((len(drafted), vocab), -torch.inf)
        logits[:, self._draft_to_target] = drafted
        logits[:, self._mask_token] = -torch.inf
        return predictions(queries, logits, states)

    def _features(self, queries: Queries, widest: int) -> torch.Tensor:
        """What each query takes in, [rows, widest, hidden]; the target's are fused."""
        table = self.decoder.weights.embedding
        hidden = table.new_zeros(len(queries), widest, table.shape[1])
        for row, query in enumerate(queries):
            if query is not None and query.features is not None:
                given = query.features
                is_own = given.shape[1] == table.shape[1]
                hidden[row, : len(given)] = given if is_own else self.decoder.fused(given)
        return hidden


def vocabulary_mistake(draft_to_target: torch.Tensor, draft_vocab: int, vocab: int) -> str | None:
    """Why a map of *draft_vocab* tokens cannot be one into *vocab*; None where it can."""
    given, size = draft_to_target, list(draft_to_target.shape)
    if given.is_floating_point() or size != [draft_vocab]:
        return f"draft_to_target is whole numbers [{draft_vocab}], got {given.dtype} {size}"
    outside = given[(given < 0) | (given >= vocab)]
    if len(outside):
        known = f"of the target, 0 to {vocab - 1}"
        return f"draft_to_target names tokens {known}, got {int(outside[0])}"
    if len(given.unique()) < len(given):
        return "draft_to_target names each token once, got one more often"
    return None
