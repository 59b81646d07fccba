"""Learners of drafters: what is drawn in a step, and what drafter and target say to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels_ref.checkpoint import Checkpoint, CheckpointError, read_checkpoint
from kernels_ref.drafting.checkpoint import (
    DrafterManifest,
    TargetWeights,
    write_drafter,
)
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.visibility import causal
from kernels_ref.passes import Decoder
from kernels_ref.training.batches import Sequences, sequences
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.learner import about_run


@dataclass(frozen=True, eq=False)
class Told:
    """What a target says of clean tokens, each [rows, length, ..]; no gradient flows to it."""

    logits: torch.Tensor
    features: torch.Tensor
    """States behind the tapped layers, side by side."""


@dataclass(frozen=True, eq=False)
class Step:
    """What is drawn for a step."""

    given: Sequences
    block_tokens: int
    first: int
    """Place from which on drafts are made: the end of the shortest prompt."""
    generator: np.random.Generator


def drawn_step(recipe: DraftRecipe, step: int) -> Step:
    """Problems and block of *step*, which with the recipe's seed decides all chance."""
    generator = np.random.default_rng((recipe.seed, step))
    blocks = recipe.stage(recipe.blocks, step).blocks
    block_tokens = int(generator.choice(blocks))
    seed = int(generator.integers(2**62))
    given = sequences(recipe.rows, recipe.largest_block, seed, phrasing=recipe.phrasing)
    return Step(given, block_tokens, int(given.prompt_tokens.min()), generator)


def target_of(recipe: DraftRecipe, start: Path | None) -> Checkpoint:
    """The target at *start*; raises CheckpointError for none, or one that is not causal."""
    if start is None:
        what = f"{recipe.name}: a drafter has a target, name its checkpoint as the start"
        raise CheckpointError(what)
    target = read_checkpoint(start)
    if target.manifest.prompt != "causal" or target.manifest.block_tokens != 1:
        what = f"{start}: a drafter's target predicts the next token, this one denoises blocks"
        raise CheckpointError(what)
    layers = len(target.decoder.weights.layers)
    if recipe.objective in {"eagle3", "dflash"} and max(recipe.tapped) > layers:
        what = f"{recipe.name}: tapped layers are 1 to {layers}, got {max(recipe.tapped)}"
        raise CheckpointError(what)
    is_dense = all(layer.feed_forward is not None for layer in target.decoder.weights.layers)
    if recipe.objective in {"noise-adapters", "mask-adapters"} and not is_dense:
        what = f"{start}: adapters are for layers with a dense feed-forward, this one has experts"
        raise CheckpointError(what)
    return target


@torch.no_grad()
def told(target: Decoder, given: Sequences, tapped: Sequence[int]) -> Told:
    """What *target* says of the clean tokens of *given*."""
    tokens = torch.from_numpy(given.tokens)
    rows, length = tokens.shape
    seen = causal(torch.zeros(rows, dtype=torch.int64), torch.full((rows,), length))
    states, streams = target.tapped_states(
        target.weights.embedding[tokens],
        seen,
        plans=target.plans(seen, length, None),
        tapped=tapped,
    )
    return Told(lm_head(states, target.weights.lm_head), torch.cat(streams, dim=2))


def write_trained(  # noqa: PLR0913 (what a manifest says)
    recipe: DraftRecipe,
    folder: Path,
    tensors: Mapping[str, torch.Tensor],
    losses: Sequence[float],
    *,
    target: Checkpoint,
    shape: Mapping[str, Any],
) -> DrafterManifest:
    """Put the drafter into *folder* and say what its manifest says."""
    about = {
        **about_run(recipe, losses),
        "drafter": recipe.objective,
        "target": TargetWeights(target.manifest.name, target.manifest.sha256),
        "shape": shape,
        "block_tokens": recipe.largest_block,
    }
    return write_drafter(folder, tensors, about)
