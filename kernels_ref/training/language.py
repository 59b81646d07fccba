"""LanguageLearner: a reference model that learns to write, token by token or block by block."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

import torch

from kernels_ref.checkpoint import (
    CheckpointError,
    CheckpointManifest,
    checkpoint_tensors,
    read_checkpoint,
    write_checkpoint,
)
from kernels_ref.kernels.moe import Router
from kernels_ref.named_weights import named_tensors, weights_of
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import normal, random_weights
from kernels_ref.task.vocabulary import END, MASK, WORDS
from kernels_ref.training.learner import about_run, leaves
from kernels_ref.training.objectives import loss
from kernels_ref.training.recipe import Recipe

CONTEXT_TOKENS: Final = 192
LAYERS: Final = 4
DENSE: Final = LayerShape(LAYERS, query_heads=6, kv_heads=2, head_dim=32, ffn=512, qk_norm=True)
EXPERTS: Final = LayerShape(
    LAYERS,
    query_heads=6,
    kv_heads=2,
    head_dim=32,
    experts=ExpertShape(8, 160, Router(2, score="sigmoid", scaling=2.0), shared=1),
    qk_norm=True,
)


class LanguageLearner:
    """All weights of a model."""

    def __init__(self, recipe: Recipe, start: Path | None, shape: PassShape | None = None) -> None:
        """From the manifest *start*, or random weights; *shape* is the reference architecture.

        Raises CheckpointError for a start that cannot be read or is of another architecture.
        """
        self._recipe = recipe
        self._shape = shape or shape_of(recipe)
        self.tensors = _first_tensors(recipe, self._shape, start)
        self._decoder = Decoder(self._shape, weights_of(self._shape, self.tensors))

    def loss(self, step: int) -> torch.Tensor:
        """Weighted mean cross-entropy, nats a token."""
        return loss(self._decoder, self._recipe, step)

    def write(self, folder: Path, losses: Sequence[float]) -> CheckpointManifest:
        """Put the checkpoint into *folder* and say what its manifest says."""
        recipe = self._recipe
        next_token = recipe.objective == "next-token"
        about = {
            **about_run(recipe, losses),
            "shape": self._shape,
            "context_tokens": CONTEXT_TOKENS,
            "block_tokens": 1 if next_token else recipe.block_tokens,
            "prompt": "causal" if next_token else recipe.prompt,
            "mask_token": MASK,
            "end_token": END,
        }
        return write_checkpoint(folder, self.tensors, about)


def shape_of(recipe: Recipe, *, hidden: int = 192) -> PassShape:
    """The reference architecture: 1.6 M parameters, dense or with experts."""
    layer = EXPERTS if recipe.experts else DENSE
    return PassShape(hidden, len(WORDS), (layer,), rotary_theta=1e4, tied=True)


def _first_tensors(recipe: Recipe, shape: PassShape, start: Path | None) -> dict[str, torch.Tensor]:
    """Those of the checkpoint to start from, or random ones."""
    if start is None:
        weights = random_weights(shape, normal(torch.float32, "cpu", recipe.seed))
        return leaves(named_tensors(weights, tied=shape.tied))
    checkpoint = read_checkpoint(start)
    if checkpoint.manifest.shape != shape:
        what = f"{start}: {_difference(checkpoint.manifest.shape, shape)}"
        raise CheckpointError(what)
    return leaves(checkpoint_tensors(checkpoint))


def _difference(found: PassShape, asked: PassShape) -> str:
    """The first field in which the architecture *found* is not the one *asked* for."""
    field = next(f.name for f in fields(asked) if getattr(found, f.name) != getattr(asked, f.name))
    return f"its {field} is {getattr(found, field)}, the recipe trains {getattr(asked, field)}"
