"""The weights of a decoder, put together from the tensors of a checkpoint by a family's names.

Every tensor of the decoder is allocated once, and theirs are copied into it one at a time from the
mapped files; a tensor that is one of theirs in the same dtype stays mapped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from kernels_ref.named_weights import named_tensors, weights_of
from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.family import Family
from kernels_ref.outside.folder import Tensors
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.random_weights import DecoderWeights, random_weights

SHOWN: Final = 3
"""Mistakes of a kind that are written out."""
LAYER: Final = re.compile(r"layers\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Piece:
    """One of their tensors, and where it goes in one of ours."""

    source: str
    size: list[int]
    expert: int | None
    rows: slice

    def write(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        """Copy *tensor* to its place in *target*; a head's norm to every head of its rows."""
        within = target if self.expert is None else target[self.expert]
        within[self.rows].copy_(tensor)


def read_weights(
    tensors: Tensors, shape: PassShape, family: Family, *, dtype: torch.dtype
) -> DecoderWeights:
    """The weights of a decoder of *shape* in *dtype*.

    Raises OutsideError for tensors that are missing, of another size than *shape* has, or not
    named by *family*: what they do would be left out.
    """
    wanted = named_tensors(random_weights(shape, _sizes_only), tied=shape.tied)
    pieces = {name: _pieces(name, like, shape, family) for name, like in wanted.items()}
    _check(tensors, [piece for each in pieces.values() for piece in each], shape, family)
    given = {
        name: _assembled(tensors, pieces[name], like, _dtype_of(name, dtype))
        for name, like in wanted.items()
    }
    return weights_of(shape, given)


def _sizes_only(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


def _dtype_of(name: str, dtype: torch.dtype) -> torch.dtype:
    """Scores are at least float32, and so is what is added to them."""
    return torch.promote_types(dtype, torch.float32) if name.endswith("experts.bias") else dtype


def _pieces(name: str, like: torch.Tensor, shape: PassShape, family: Family) -> list[Piece]:
    """What our tensor *name*, of the size of *like*, is made of."""
    within = LAYER.fullmatch(name)
    if within is None:
        return list(_stacked(family.tensors[name], like.shape[:1], like.shape, None))
    number, inner = int(within[1]), within[2]
    layer = shape.unrolled[number][1]
    prefix = family.layer_prefix.format(layer=number)
    names = tuple(prefix + each for each in family.layer_tensors[inner])
    if inner == "query_key_norm":
        heads = (layer.query_heads, layer.kv_heads)
        return list(_stacked(names, heads, like.shape[1:], None))
    if "{expert}" not in names[0]:
        heights = _heights(inner, layer, len(names), like.shape[0])
        return list(_stacked(names, heights, like.shape, None))
    heights = _heights(inner, layer, len(names), like.shape[1])
    return [
        piece
        for expert in range(like.shape[0])
        for piece in _stacked(
            tuple(each.format(expert=expert) for each in names), heights, like.shape[1:], expert
        )
    ]


def _heights(inner: str, layer: LayerShape, parts: int, rows: int) -> tuple[int, ...]:
    """Rows of each of the *parts* of a tensor: equal ones, or query, key and value."""
    if inner == "qkv.weight" and parts > 1:
        return layer.projected_columns
    return (rows // parts,) * parts


def _stacked(
    names: tuple[str, ...],
    heights: tuple[int, ...],
    size: tuple[int, ...],
    expert: int | None,
) -> Iterator[Piece]:
    """Pieces below one another, each *heights* of the rows of *size*; a norm is one head's."""
    first = 0
    is_norm = len(size) == 1 and len(names) > 1
    for name, height in zip(names, heights, strict=True):
        own = list(size) if is_norm else [height, *size[1:]]
        yield Piece(name, own, expert, slice(first, first + height))
        first += height


def _check(tensors: Tensors, pieces: list[Piece], shape: PassShape, family: Family) -> None:
    asked = {piece.source: piece.size for piece in pieces}
    missing = [f"{name} {size}" for name, size in asked.items() if name not in tensors.sizes]
    _refuse(tensors, missing, "a decoder of this config has tensors that are missing")
    sized = [
        f"{name} {tensors.sizes[name]}, not {size}"
        for name, size in asked.items()
        if tensors.sizes[name] != size
    ]
    _refuse(tensors, sized, "tensors have the sizes that config.json says, but these have not")
    known = {*asked, *(family.tensors["lm_head"] if shape.tied else ())}
    unknown = [
        name
        for name in tensors.sizes
        if name not in known and not name.endswith(family.ignored_tensors)
    ]
    _refuse(tensors, unknown, f"tensors that a {family.name} decoder has no place for")


def _refuse(tensors: Tensors, mistakes: list[str], rule: str) -> None:
    if not mistakes:
        return
    more = len(mistakes) - SHOWN
    shown = ", ".join(mistakes[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    raise OutsideError(tensors.folder, f"{rule}: {shown}")


def _assembled(
    tensors: Tensors, pieces: list[Piece], like: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    if len(pieces) == 1 and pieces[0].size == list(like.shape):
        return tensors[pieces[0].source].to(dtype)
    target = torch.empty(like.shape, dtype=dtype)
    for piece in pieces:
        piece.write(tensors[piece.source], target)
    return target
