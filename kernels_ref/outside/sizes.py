"""Sizes: the shape of a checkpoint's decoder, read off its config."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, TypeAdapter, ValidationError

from kernels_ref.kernels.moe import Router
from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.family import Family, Setting, look_up
from kernels_ref.outside.folder import CONFIG_FILE
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape

Count = Annotated[int, Strict(), Field(ge=1)]
Place = Annotated[int, Strict(), Field(ge=0)]
Flag = Annotated[bool, Strict()]
Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class ExpertSizes:
    """Experts of all layers behind the first *dense_layers*."""

    dense_layers: Place
    count: Count
    ffn: Count
    shared: Place
    top_k: Count
    groups: Count
    groups_used: Count
    scaling: Positive
    renormalise: Flag
    score: Literal["softmax", "sigmoid"]
    biased: Flag


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Everything that the config of a decoder says about its shape, and tokens and lengths."""

    hidden: Count
    vocab: Count
    layers: Count
    query_heads: Count
    kv_heads: Count
    head_dim: Count
    ffn: Count
    """Of the dense layers."""
    qk_norm: Flag
    rotary_theta: Positive
    rotary_share: Annotated[float, Field(gt=0, le=1)]
    """Of a head's dimensions, that which positions turn."""
    tied: Flag
    mask_token: Place
    block_tokens: Count
    context_tokens: Count
    experts: ExpertSizes | None


def read_sizes(folder: Path, config: Mapping[str, Any], family: Family) -> Sizes:
    """The sizes that *config* of *folder* gives by the keys of *family*.

    Raises OutsideError for what is missing, of another kind, or refused by the family, and for a
    mask token that is none of the vocabulary.
    """
    path = folder / CONFIG_FILE
    _check_required(path, config, family)
    settings = {
        **family.config,
        "mask_token": family.mask_token,
        "block_tokens": family.block_tokens,
        "context_tokens": family.context_tokens,
    }
    values = _values(path, config, settings)
    experts = None if family.experts is None else _values(path, config, family.experts)
    try:
        sizes = TypeAdapter(Sizes).validate_python({**values, "experts": experts})
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}, got {mistake['input']!r}"
            for mistake in error.errors()
        ]
        raise OutsideError(path, "; ".join(mistakes)) from error
    if sizes.mask_token >= sizes.vocab:
        rule = f"the mask token is one of the vocabulary of {sizes.vocab}, got {sizes.mask_token}"
        raise OutsideError(path, rule)
    return sizes


def pass_shape(path: Path, sizes: Sizes) -> PassShape:
    """The decoder's shape; raises OutsideError with *path* where its numbers do not divide."""
    experts = None if sizes.experts is None else _expert_shape(path, sizes.experts)
    dense = sizes.layers if sizes.experts is None else sizes.experts.dense_layers
    groups = (_layers(sizes, dense, None), _layers(sizes, sizes.layers - dense, experts))
    turned = round(sizes.head_dim * sizes.rotary_share)
    if sizes.query_heads % sizes.kv_heads:
        rule = f"KV heads divide query heads, got {sizes.kv_heads} and {sizes.query_heads}"
        raise OutsideError(path, rule)
    if turned % 2:
        raise OutsideError(path, f"an even number of dimensions turns, got {turned}")
    return PassShape(
        hidden=sizes.hidden,
        vocab=sizes.vocab,
        layers=tuple(group for group in groups if group.count > 0),
        rotary_theta=sizes.rotary_theta,
        rotary_dim=turned if turned < sizes.head_dim else None,
        tied=sizes.tied,
    )


def _check_required(path: Path, config: Mapping[str, Any], family: Family) -> None:
    for key, allowed in family.requires.items():
        value = look_up(config, key)
        if value is not None and value not in allowed:
            said = " or ".join(map(repr, allowed)) or "nothing"
            rule = f"{key} is {said} in checkpoints that can be run, got {value!r}"
            raise OutsideError(path, rule)


def _values(
    path: Path, config: Mapping[str, Any], settings: Mapping[str, Setting]
) -> dict[str, Any]:
    found = {name: setting.value(config) for name, setting in settings.items()}
    for name, value in found.items():
        if value is None:
            keys = " or ".join(settings[name].keys)
            rule = f"a config says {name.replace('_', ' ')} under {keys}, found nothing there"
            raise OutsideError(path, rule)
    return found


def _layers(sizes: Sizes, count: int, experts: ExpertShape | None) -> LayerShape:
    return LayerShape(
        count=count,
        query_heads=sizes.query_heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        ffn=sizes.ffn if experts is None else None,
        experts=experts,
        qk_norm=sizes.qk_norm,
    )


def _expert_shape(path: Path, sizes: ExpertSizes) -> ExpertShape:
    router = Router(
        top_k=sizes.top_k,
        score=sizes.score,
        renormalise=sizes.renormalise,
        groups=sizes.groups,
        groups_used=sizes.groups_used,
        scaling=sizes.scaling,
    )
    try:
        router.check(sizes.count)
    except ValueError as error:
        raise OutsideError(path, str(error)) from error
    return ExpertShape(
        count=sizes.count, ffn=sizes.ffn, router=router, shared=sizes.shared, biased=sizes.biased
    )
