"""Source: where the weights come from, a checkpoint of ours or a folder from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch

from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint
from kernels_ref.decoding.query import Model
from kernels_ref.decoding.reference import reference_model
from kernels_ref.outside import outside_model

DTYPES: Final[Mapping[str, torch.dtype]] = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, eq=False)
class Source:
    """A model, and what a trace says of it."""

    name: str
    sha256: str
    prompt: str
    """How its clean tokens see one another: block-causal, prefix-full or causal."""
    model: Model
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Parameters that its family has other defaults for, by policy."""


def shipped_checkpoints() -> list[str]:
    """Names of the checkpoints that come with the package."""
    return sorted(file.stem for file in CHECKPOINTS.glob("*.yaml"))


def shipped_path(name: str) -> Path:
    """The manifest of one of them."""
    return CHECKPOINTS / f"{name}.yaml"


def source_at(path: Path, *, family: str | None, dtype: str, threads: int) -> Source:
    """The checkpoint at *path*, a manifest or a Hugging Face folder, to run on *threads* threads.

    *dtype* is one of DTYPES. Raises CheckpointError and OutsideError.
    """
    torch.set_num_threads(threads)
    if path.is_dir():
        model, facts, sha256 = outside_model(path, family=family, dtype=DTYPES[dtype])
        return Source(path.resolve().name, sha256, facts.prompt, model, facts.thresholds)
    found = read_checkpoint(path, DTYPES[dtype])
    about = found.manifest
    return Source(about.name, about.sha256, about.prompt, reference_model(found))
