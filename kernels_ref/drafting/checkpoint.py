"""A drafter on disk: its own weights in half precision, and a manifest that names its target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import ConfigDict

from kernels_ref.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    CheckpointError,
    CheckpointManifest,
    manifest_at,
    put_checkpoint,
    read_checkpoint,
    read_checkpoint_manifest,
    tensors_beside,
)

DrafterKind = Literal["noise-adapters", "mask-adapters", "eagle3", "dflash"]
MOST_BLOCK_TOKENS = 4096
VOCABULARY_MAP = "draft_to_target"
"""The only tensor of whole numbers."""


@dataclass(frozen=True)
class TargetWeights:
    """The model that a drafter was trained for: no other will do."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    sha256: str


@dataclass(frozen=True)
class DrafterManifest:
    """What a drafter is, and how it came about."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    format_version: Literal[1]
    name: str
    description: str
    drafter: DrafterKind
    target: TargetWeights
    sha256: str
    """Of the safetensors file beside the manifest."""
    shape: Mapping[str, Any]
    """Sizes, as the kind of drafter has them."""
    block_tokens: int
    """Largest block that it was trained for."""
    recipe: Mapping[str, Any]
    """Every field of the training recipe."""
    software: Mapping[str, str]
    final_loss: float
    """Mean training loss of the last twentieth of the steps."""

    def __post_init__(self) -> None:
        """Refuse blocks that none can be, no name, and a loss that is no number."""
        if not self.name.strip():
            rule = "name is not empty"
            raise ValueError(rule)
        if not math.isfinite(self.final_loss):
            rule = f"final_loss is a finite number, got {self.final_loss}"
            raise ValueError(rule)
        if not 1 <= self.block_tokens <= MOST_BLOCK_TOKENS:
            rule = f"block_tokens is 1 to {MOST_BLOCK_TOKENS}, got {self.block_tokens}"
            raise ValueError(rule)


@dataclass(frozen=True, eq=False)
class DrafterCheckpoint:
    """A manifest, its tensors, and the target that they are for."""

    manifest: DrafterManifest
    tensors: Mapping[str, torch.Tensor]
    target: Checkpoint


def write_drafter(
    folder: Path, tensors: Mapping[str, torch.Tensor], manifest: Mapping[str, Any]
) -> DrafterManifest:
    """Write NAME.safetensors and NAME.yaml into *folder*; the manifest lacks only the hash."""
    return put_checkpoint(DrafterManifest, folder, tensors, manifest)


def read_drafter(path: Path, dtype: torch.dtype = torch.float32) -> DrafterCheckpoint:
    """The drafter whose manifest is at *path*, and its target, which lies beside it or is shipped.

    Raises CheckpointError for files that are missing or not what they should be, weights of another
    hash, and a target that is not the one it was trained for.
    """
    manifest = manifest_at(DrafterManifest, path, "drafter manifest")
    tensors = tensors_beside(path, manifest.sha256, dtype, whole=(VOCABULARY_MAP,))
    target = read_checkpoint(_target_of(manifest, path), dtype)
    if target.manifest.sha256 != manifest.target.sha256:
        what = (
            f"{path}: trained for {manifest.target.name} of sha256 {manifest.target.sha256}, "
            f"found one of {target.manifest.sha256}"
        )
        raise CheckpointError(what)
    return DrafterCheckpoint(manifest, tensors, target)


def _target_of(manifest: DrafterManifest, path: Path) -> Path:
    """Where the target's manifest is."""
    file = f"{Path(manifest.target.name).name}.yaml"
    possible = [folder / file for folder in (path.parent, CHECKPOINTS)]
    found = next((place for place in possible if place.is_file()), None)
    if found is None:
        what = f"{possible[0]}: not found, and none of that name is shipped; {path} drafts for it"
        raise CheckpointError(what)
    return found


def is_drafter(path: Path) -> bool:
    """Whether the manifest at *path* is of a drafter; raises CheckpointError if it is none."""
    return "drafter" in manifest_at(dict[str, Any], path, "checkpoint manifest")


def made_manifest(path: Path) -> CheckpointManifest | DrafterManifest:
    """The manifest at *path*, of a model or of a drafter; raises CheckpointError."""
    if is_drafter(path):
        return manifest_at(DrafterManifest, path, "drafter manifest")
    return read_checkpoint_manifest(path)
