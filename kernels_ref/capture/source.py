"""Source: where the weights come from, a checkpoint of ours or a folder from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch

from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint
from kernels_ref.decoding.query import Model
from kernels_ref.decoding.reference import reference_model
from kernels_ref.drafting.checkpoint import DrafterManifest, is_drafter, made_manifest
from kernels_ref.drafting.reading import drafted_model
from kernels_ref.outside import outside_model

DTYPES: Final[Mapping[str, torch.dtype]] = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Weights:
    """Weights by name and hash."""

    name: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Source:
    """A model, and what a trace says of it."""

    name: str
    sha256: str
    """Of the weights called so: the drafter's, where there is one."""
    prompt: str
    """How its clean tokens see one another: block-causal, prefix-full or causal."""
    model: Model
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Parameters that its family has other defaults for, by policy."""
    drafter: str | None = None
    """Kind of the drafter that the model has."""
    target_weights: Weights | None = None
    """Of the model that verifies; None where nothing drafts."""

    @property
    def target(self) -> Weights:
        """Weights of the model that has the last word."""
        return self.target_weights or Weights(self.name, self.sha256)


def shipped_checkpoints() -> list[str]:
    """Names of the checkpoints that come with the package."""
    return sorted(file.stem for file in CHECKPOINTS.glob("*.yaml"))


def shipped_with(drafter: str | None) -> list[str]:
    """Names of those that have this kind of drafter, or none."""
    manifests = {name: made_manifest(shipped_path(name)) for name in shipped_checkpoints()}
    kinds = {
        name: about.drafter if isinstance(about, DrafterManifest) else None
        for name, about in manifests.items()
    }
    return [name for name, kind in kinds.items() if kind == drafter]


def shipped_path(name: str) -> Path:
    """The manifest of one of them."""
    return CHECKPOINTS / f"{name}.yaml"


def source_at(path: Path, *, family: str | None, dtype: str, threads: int) -> Source:
    """The checkpoint at *path*, a manifest or a Hugging Face folder, to run on *threads* threads.

    A drafter's comes with its target.

    *dtype* is one of DTYPES. Raises CheckpointError and OutsideError.
    """
    torch.set_num_threads(threads)
    if path.is_dir():
        model, facts, sha256 = outside_model(path, family=family, dtype=DTYPES[dtype])
        return Source(path.resolve().name, sha256, facts.prompt, model, facts.thresholds)
    if is_drafter(path):
        return _drafted(path, DTYPES[dtype])
    found = read_checkpoint(path, DTYPES[dtype])
    about = found.manifest
    return Source(about.name, about.sha256, about.prompt, reference_model(found))


def _drafted(path: Path, dtype: torch.dtype) -> Source:
    found = drafted_model(path, dtype)
    about, target = found.manifest, found.target
    return Source(
        about.name,
        about.sha256,
        target.prompt,
        found.model,
        drafter=about.drafter,
        target_weights=Weights(target.name, target.sha256),
    )
