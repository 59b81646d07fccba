"""Checkpoint: weights in half precision as safetensors, and a YAML manifest about them.

The manifest holds the weights' SHA-256, so a trace that names it names the very weights.
"""

import hashlib
import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

import torch
import yaml
from pydantic import ConfigDict, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from kernels_ref.checked_yaml import checked_yaml, chosen_yaml
from kernels_ref.named_weights import named_tensors, weights_of
from kernels_ref.pass_shape import PassShape
from kernels_ref.passes import Decoder

CHECKPOINTS: Final = Path(__file__).parent / "checkpoints"
"""The checkpoints that come with the package."""


MOST_CONTEXT_TOKENS = 1_000_000
M = TypeVar("M")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: what file, and why."""


@dataclass(frozen=True)
class CheckpointManifest:
    """What a checkpoint is, and how it came about."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    format_version: Literal[1]
    name: str
    description: str
    sha256: str
    """Of the safetensors file beside the manifest."""
    shape: PassShape
    context_tokens: int
    """Longest sequence that it was trained for."""
    block_tokens: int
    """Block that it was trained for; 1 for an autoregressive model."""
    prompt: Literal["block-causal", "prefix-full", "causal"]
    mask_token: int
    end_token: int
    recipe: Mapping[str, Any]
    """Every field of the training recipe."""
    software: Mapping[str, str]
    final_loss: float
    """Mean training loss of the last twentieth of the steps, nats a token."""

    def __post_init__(self) -> None:
        """Refuse tokens that the vocabulary does not have, and numbers that none can be."""
        if mistakes := list(_mistakes(self)):
            raise ValueError("; ".join(mistakes))


@dataclass(frozen=True)
class Checkpoint:
    """A manifest and the decoder that it describes."""

    manifest: CheckpointManifest
    decoder: Decoder


def write_checkpoint(
    folder: Path, tensors: Mapping[str, torch.Tensor], manifest: Mapping[str, Any]
) -> CheckpointManifest:
    """Write NAME.safetensors and NAME.yaml into *folder*; the manifest lacks only the hash."""
    return put_checkpoint(CheckpointManifest, folder, tensors, manifest)


def put_checkpoint(
    schema: type[M], folder: Path, tensors: Mapping[str, torch.Tensor], manifest: Mapping[str, Any]
) -> M:
    """`write_checkpoint` with a manifest of any *schema*; whole numbers stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = save({name: _kept(tensor) for name, tensor in tensors.items()})
    adapter = TypeAdapter(schema)
    sha256 = hashlib.sha256(weights).hexdigest()
    checked = adapter.validate_python({"format_version": 1, **manifest, "sha256": sha256})
    (folder / f"{manifest['name']}.safetensors").write_bytes(weights)
    plain = adapter.dump_python(checked, mode="json")
    text = yaml.safe_dump(plain, sort_keys=False, width=100)
    (folder / f"{manifest['name']}.yaml").write_text(text, encoding="utf-8")
    return checked


def read_checkpoint(path: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """The checkpoint whose manifest is the YAML file at *path*, its weights in *dtype*.

    Raises CheckpointError for a file that is missing or not what it should be, weights of another
    hash, and tensors that are not of the architecture.
    """
    manifest = read_checkpoint_manifest(path)
    tensors = tensors_beside(path, manifest.sha256, dtype)
    try:
        weights = weights_of(manifest.shape, tensors)
    except ValueError as error:
        what = f"{path.with_suffix('.safetensors')}: {error}"
        raise CheckpointError(what) from error
    return Checkpoint(manifest, Decoder(manifest.shape, weights))


def tensors_beside(
    path: Path, sha256: str, dtype: torch.dtype, *, whole: Container[str] = ()
) -> dict[str, torch.Tensor]:
    """The weights beside the manifest at *path*, in *dtype*; of *whole* numbers in int64.

    Raises CheckpointError where they are missing, of another hash, unreadable or not finite, or
    others than those of *whole* are no floating-point numbers.
    """
    file = path.with_suffix(".safetensors")
    if not file.is_file():
        what = f"{file}: not found; the weights lie beside the manifest"
        raise CheckpointError(what)
    found = _sha256(file)
    if found != sha256:
        what = f"{file}: sha256 is {found}, {path.name} says {sha256}"
        raise CheckpointError(what)
    try:
        tensors = load_file(file)
    except SafetensorError as error:
        what = f"{file}: {error}"
        raise CheckpointError(what) from error
    if wrong := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        what = f"{file}: weights are finite numbers, {', '.join(wrong)} has others"
        raise CheckpointError(what)
    odd = [n for n, t in tensors.items() if n not in whole and not t.is_floating_point()]
    if odd:
        found = f"{', '.join(odd)} has {tensors[odd[0]].dtype}"
        what = f"{file}: weights are floating-point numbers, {found}"
        raise CheckpointError(what)
    return {n: t.to(dtype) if t.is_floating_point() else t.long() for n, t in tensors.items()}


def read_checkpoint_manifest(path: Path) -> CheckpointManifest:
    """The manifest at *path*; raises CheckpointError with every mistake in it."""

    def of_a_model(document: dict[str, Any]) -> type[CheckpointManifest]:
        if "drafter" in document:
            what = f"{path}: is a drafter, and a model is needed"
            raise ValueError(what)
        return CheckpointManifest

    try:
        return chosen_yaml(of_a_model, path, "checkpoint manifest")
    except ValueError as error:
        raise CheckpointError(*error.args) from error


def manifest_at(schema: type[M], path: Path, kind: str) -> M:
    """The manifest of *schema* at *path*; raises CheckpointError with why it is no *kind*."""
    try:
        return checked_yaml(schema, path, kind)
    except ValueError as error:
        raise CheckpointError(*error.args) from error


def checkpoint_tensors(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights by name, as the file holds them."""
    return named_tensors(checkpoint.decoder.weights, tied=checkpoint.manifest.shape.tied)


def _mistakes(manifest: CheckpointManifest) -> Iterator[str]:
    vocab, largest = manifest.shape.vocab, MOST_CONTEXT_TOKENS
    for field, least, most in (
        ("mask_token", 0, vocab - 1),
        ("end_token", 0, vocab - 1),
        ("context_tokens", 1, largest),
        ("block_tokens", 1, largest),
    ):
        if not least <= (value := getattr(manifest, field)) <= most:
            yield f"{field} is {least} to {most}, got {value}"
    if manifest.mask_token == manifest.end_token:
        yield f"mask_token and end_token differ, both are {manifest.end_token}"
    if not manifest.name.strip():
        yield "name is not empty"
    if not (0 < manifest.shape.rotary_theta < math.inf and math.isfinite(manifest.final_loss)):
        yield "rotary_theta is above 0, final_loss a number, both finite"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """As the file holds it."""
    given = tensor.detach().contiguous()
    return given.half() if given.is_floating_point() else given
