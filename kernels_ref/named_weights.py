"""Weights as named tensors: what a file holds and an optimiser steps, "layers.0.qkv.weight"."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from kernels_ref.pass_shape import PassShape
from kernels_ref.random_weights import DecoderWeights, random_weights

T = TypeVar("T")
Change = Callable[[str, torch.Tensor], torch.Tensor]


def named_tensors(weights: DecoderWeights, *, tied: bool) -> dict[str, torch.Tensor]:
    """Every tensor once, by where it is; an LM head that is the embedding is left out."""
    found = tensors_in(weights)
    if tied:
        del found["lm_head"]
    return found


def weights_of(shape: PassShape, tensors: Mapping[str, torch.Tensor]) -> DecoderWeights:
    """The weights of a decoder of *shape* in *tensors*, which are named as `named_tensors` does.

    Raises ValueError that names what is missing, of another size, or not of this architecture.
    """
    given = {**tensors, "lm_head": tensors["embedding"]} if _ties(shape, tensors) else {**tensors}
    return filled(random_weights(shape, sizes_only), given)


def tensors_in(weights: Any) -> dict[str, torch.Tensor]:  # noqa: ANN401 (any dataclass of tensors)
    """Every tensor of *weights*, at any depth, by where it is."""
    found: dict[str, torch.Tensor] = {}

    def note(name: str, tensor: torch.Tensor) -> torch.Tensor:
        found[name] = tensor
        return tensor

    _mapped(weights, "", note)
    return found


def filled(template: T, tensors: Mapping[str, torch.Tensor]) -> T:
    """*template* with the tensors of the same names; raises ValueError as `weights_of`."""
    asked: dict[str, list[int]] = {}

    def note(name: str, like: torch.Tensor) -> torch.Tensor:
        asked[name] = list(like.shape)
        return tensors.get(name, like)

    weights: T = _mapped(template, "", note)
    if mistakes := _mistakes(asked, tensors):
        raise ValueError("; ".join(mistakes))
    return weights


def sizes_only(*sizes: int) -> torch.Tensor:
    """A tensor without content: to draw weights that only say how large they are.

    Raises ValueError for a size that none can have.
    """
    if min(sizes) < 0:
        rule = f"a tensor has no negative size, got {list(sizes)}"
        raise ValueError(rule)
    return torch.empty(*sizes, device="meta")


def _ties(shape: PassShape, tensors: Mapping[str, torch.Tensor]) -> bool:
    return shape.tied and "embedding" in tensors and "lm_head" not in tensors


def _mistakes(asked: Mapping[str, list[int]], given: Mapping[str, torch.Tensor]) -> list[str]:
    missing = [f"{name} {size} is missing" for name, size in asked.items() if name not in given]
    unknown = [f"{name} is not of this architecture" for name in given if name not in asked]
    sized = [
        f"{name} is {list(given[name].shape)}, the architecture has {size}"
        for name, size in asked.items()
        if name in given and list(given[name].shape) != size
    ]
    return missing + unknown + sized


def _mapped(part: Any, name: str, change: Change) -> Any:  # noqa: ANN401 (any part of weights)
    """*part* with each tensor in it, at any depth, replaced by what *change* makes of it."""
    if isinstance(part, torch.Tensor):
        return change(name, part)
    inner = f"{name}." if name else ""
    if isinstance(part, tuple):
        return tuple(_mapped(one, f"{inner}{i}", change) for i, one in enumerate(part))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {
            field.name: _mapped(getattr(part, field.name), f"{inner}{field.name}", change)
            for field in dataclasses.fields(part)
        }
        return type(part)(**fields)
    return part
