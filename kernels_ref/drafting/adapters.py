"""Gated low-rank adapters on a target's own projections: diffusion weights beside its own (Uno)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal

import torch
from pydantic import ConfigDict, Field, Strict

from kernels_ref.named_weights import filled, named_tensors, sizes_only
from kernels_ref.pass_shape import LayerShape
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import Adapters, Draw, FeedForward, LayerWeights, Projection

Part = Literal["qkv", "output", "gate_up", "down"]
PARTS: Final[tuple[Part, ...]] = ("qkv", "output", "gate_up", "down")


@dataclass(frozen=True)
class AdapterShape:
    """How large adapters are, and on which projections of every layer."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    rank: Annotated[int, Strict(), Field(ge=1, le=4096)] = 32
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 64.0
    """What an adapter adds is multiplied by alpha / rank."""
    parts: Annotated[tuple[Part, ...], Field(min_length=1)] = PARTS

    def __post_init__(self) -> None:
        """Refuse a projection that is named twice."""
        if len(set(self.parts)) < len(self.parts):
            rule = f"parts are named once, got {', '.join(self.parts)}"
            raise ValueError(rule)

    @property
    def scaling(self) -> float:
        """What the product of the two matrices is multiplied by."""
        return self.alpha / self.rank


def new_adapters(target: Decoder, shape: AdapterShape, draw: Draw) -> dict[str, torch.Tensor]:
    """Adapters that change nothing yet, by name: *draw* makes the down parts, up parts are zero."""
    made = adapter_tensors(with_new_adapters(target, shape, draw))
    return {
        name: tensor if name.endswith("down") else torch.zeros_like(tensor)
        for name, tensor in made.items()
    }


def with_adapters(
    target: Decoder, shape: AdapterShape, tensors: Mapping[str, torch.Tensor]
) -> Decoder:
    """*target* with the adapters in *tensors* beside its own weights, which it shares.

    Raises ValueError for tensors that are missing, of another size, or none of *shape*.
    """
    like = with_new_adapters(target, shape, sizes_only)
    own = named_tensors(target.weights, tied=False)
    if taken := sorted(own.keys() & tensors.keys()):
        rule = f"adapters lie beside the target's weights, got {', '.join(taken)} in place of them"
        raise ValueError(rule)
    both = {**own, **tensors}
    return Decoder(like.shape, filled(like.weights, both))


def with_new_adapters(target: Decoder, shape: AdapterShape, draw: Draw) -> Decoder:
    """*target* with adapters of *shape* that *draw* makes, up parts too."""

    def adapted(layer: LayerShape, weights: LayerWeights) -> LayerWeights:
        return _adapted(weights, layer, shape, draw)

    layers = zip(target.shape.unrolled, target.weights.layers, strict=True)
    weights = replace(target.weights, layers=tuple(adapted(s, w) for (_, s), w in layers))
    return Decoder(
        replace(target.shape, adapter_rank=shape.rank, adapter_scaling=shape.scaling), weights
    )


def _adapted(
    weights: LayerWeights, layer: LayerShape, shape: AdapterShape, draw: Draw
) -> LayerWeights:
    """One layer, with adapters on the parts that are asked for."""

    def on(part: Part, projection: Projection, outs: tuple[int, ...]) -> Projection:
        if part not in shape.parts:
            return projection
        ups = tuple(draw(out, shape.rank) for out in outs)
        down = draw(shape.rank * len(outs), projection.weight.shape[1])
        return Projection(projection.weight, Adapters(down, ups))

    hidden, feed_forward = len(weights.output.weight), weights.feed_forward
    if feed_forward is None or layer.ffn is None:
        rule = "adapters are for layers with a dense feed-forward"
        raise ValueError(rule)
    return replace(
        weights,
        qkv=on("qkv", weights.qkv, layer.projected_columns),
        output=on("output", weights.output, (hidden,)),
        feed_forward=FeedForward(
            on("gate_up", feed_forward.gate_up, (layer.ffn, layer.ffn)),
            on("down", feed_forward.down, (hidden,)),
        ),
    )


def adapter_tensors(decoder: Decoder) -> dict[str, torch.Tensor]:
    """The adapters of *decoder* by name, as `with_adapters` takes them."""
    named = named_tensors(decoder.weights, tied=decoder.shape.tied)
    return {name: tensor for name, tensor in named.items() if ".adapters." in name}
