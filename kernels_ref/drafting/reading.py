"""The model that a drafter's checkpoint and its target make together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError

from kernels_ref.checkpoint import CheckpointError, CheckpointManifest
from kernels_ref.decoding.query import Model
from kernels_ref.decoding.reference import facts_of, reference_model
from kernels_ref.drafting.adapters import AdapterShape, with_adapters
from kernels_ref.drafting.checkpoint import (
    VOCABULARY_MAP,
    DrafterCheckpoint,
    DrafterManifest,
    read_drafter,
)
from kernels_ref.drafting.dflash import DFlash, DFlashDrafter, DFlashShape, random_dflash
from kernels_ref.drafting.eagle3 import (
    Eagle3,
    Eagle3Drafter,
    Eagle3Shape,
    random_eagle3,
    vocabulary_mistake,
)
from kernels_ref.drafting.model import SpeculativeModel
from kernels_ref.named_weights import filled, sizes_only

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class DraftedModel:
    """A target with its drafter, and what both say of themselves."""

    manifest: DrafterManifest
    target: CheckpointManifest
    model: Model


def drafted_model(path: Path, dtype: torch.dtype = torch.float32) -> DraftedModel:
    """The model of the drafter whose manifest is at *path*.

    Raises CheckpointError as `read_drafter`, and for sizes and tensors that do not fit the target.
    """
    found = read_drafter(path, dtype)
    try:
        model = _MADE[found.manifest.drafter](found)
    except ValueError as error:
        what = f"{path}: {error}"
        raise CheckpointError(what) from error
    return DraftedModel(found.manifest, found.target.manifest, model)


def _adapted(found: DrafterCheckpoint) -> Model:
    shape = _shape(AdapterShape, found.manifest.shape)
    target = replace(
        found.target, decoder=with_adapters(found.target.decoder, shape, found.tensors)
    )
    return reference_model(target, block_tokens=found.manifest.block_tokens)


def _eagle3(found: DrafterCheckpoint) -> Model:
    shape = _shape(Eagle3Shape, found.manifest.shape)
    target = found.target.decoder
    _check_width(shape.hidden, shape.tapped, found)
    if VOCABULARY_MAP not in found.tensors:
        rule = f"{VOCABULARY_MAP} [{shape.draft_vocab}] is missing"
        raise ValueError(rule)
    mapped = found.tensors[VOCABULARY_MAP]
    if mistake := vocabulary_mistake(mapped, shape.draft_vocab, target.shape.vocab):
        raise ValueError(mistake)
    own = {name: tensor for name, tensor in found.tensors.items() if name != VOCABULARY_MAP}
    weights = filled(random_eagle3(shape, sizes_only), own)
    decoder = Eagle3(shape, weights, target.weights.embedding)
    mask_token = found.target.manifest.mask_token
    return _beside(found, Eagle3Drafter(decoder, mapped.long(), mask_token))


def _dflash(found: DrafterCheckpoint) -> Model:
    shape = _shape(DFlashShape, found.manifest.shape)
    _check_width(shape.hidden, shape.tapped, found)
    weights = filled(random_dflash(shape, sizes_only), found.tensors)
    decoder = DFlash(shape, weights, found.target.decoder)
    return _beside(found, DFlashDrafter(decoder, found.target.manifest.mask_token))


_MADE = {
    "noise-adapters": _adapted,
    "mask-adapters": _adapted,
    "eagle3": _eagle3,
    "dflash": _dflash,
}


def _beside(found: DrafterCheckpoint, drafter: Eagle3Drafter | DFlashDrafter) -> Model:
    facts = replace(facts_of(found.target.manifest), block_tokens=found.manifest.block_tokens)
    return SpeculativeModel(reference_model(found.target, drafter.tapped), drafter, facts)


def _shape(schema: type[S], sizes: Mapping[str, Any]) -> S:
    try:
        return TypeAdapter(schema).validate_python(sizes)
    except ValidationError as error:
        said = [f"shape.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ValueError("; ".join(said)) from error


def _check_width(hidden: int, tapped: tuple[int, ...], found: DrafterCheckpoint) -> None:
    """Raise ValueError where the target has not what the drafter takes in."""
    target = found.target.decoder.shape
    if hidden != target.hidden:
        rule = f"shape.hidden is the target's {target.hidden}, got {hidden}"
        raise ValueError(rule)
    layers = len(target.unrolled)
    if not all(1 <= layer <= layers for layer in tapped) or list(tapped) != sorted(set(tapped)):
        rule = f"shape.tapped rises within layers 1 to {layers}, got {', '.join(map(str, tapped))}"
        raise ValueError(rule)
