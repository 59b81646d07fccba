"""DFlashLearner: a drafter of whole blocks behind the features of the clean tokens before them."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from kernels_ref.drafting.checkpoint import DrafterManifest
from kernels_ref.drafting.dflash import DFlash, DFlashShape, random_dflash
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.named_weights import filled, tensors_in
from kernels_ref.random_weights import normal
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.draft_loss import draft_loss, log_probabilities
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.draft_streams import (
    DraftBlocks,
    among_drafts,
    behind_clean,
    draft_blocks,
)
from kernels_ref.training.drafters import Step, drawn_step, target_of, told, write_trained
from kernels_ref.training.learner import leaves
from kernels_ref.training.streams import given_pairs


class DFlashLearner:
    """All weights of the drafter; embedding, LM head and features are its target's."""

    def __init__(self, recipe: DraftRecipe, start: Path | None) -> None:
        """Beside the target whose manifest is *start*; raises CheckpointError for a wrong one."""
        self._recipe = recipe
        self._target = target_of(recipe, start)
        target = self._target.decoder
        self._shape = DFlashShape(
            hidden=target.shape.hidden,
            layer=replace(target.shape.layers[0], count=recipe.layers),
            tapped=recipe.tapped,
            rotary_theta=target.shape.rotary_theta,
        )
        weights = random_dflash(self._shape, normal(torch.float32, "cpu", recipe.seed))
        self.tensors = leaves(tensors_in(weights))
        self._drafter = DFlash(self._shape, filled(weights, self.tensors), target)

    def loss(self, step: int) -> torch.Tensor:
        """Of the masked places of blocks that tile the answer."""
        drawn = drawn_step(self._recipe, step)
        given, first = drawn.given, drawn.first
        rows, length = given.tokens.shape
        answers = told(self._target.decoder, given, self._recipe.tapped)
        blocks = draft_blocks(
            rows,
            length,
            first=first,
            block_tokens=drawn.block_tokens,
            generator=drawn.generator,
        )
        drafted = self._logits(drawn, blocks, answers.features)
        masked = np.where(blocks.within == 0, 0.0, given.weights)
        weights = blocks.weighted(masked, self._recipe.decay)[:, first:]
        log_p = log_probabilities(answers.logits[:, first - 1 : length - 1])
        stage = self._recipe.stage(self._recipe.loss, step)
        return draft_loss(log_probabilities(drafted), log_p, weights, stage)

    def write(self, folder: Path, losses: Sequence[float]) -> DrafterManifest:
        """Put the drafter into *folder* and say what its manifest says."""
        return write_trained(
            self._recipe,
            folder,
            self.tensors,
            losses,
            target=self._target,
            shape=asdict(self._shape),
        )

    def _logits(self, drawn: Step, blocks: DraftBlocks, features: torch.Tensor) -> torch.Tensor:
        """Of all places from the first draft on, [rows, places, vocab]."""
        tokens, first = drawn.given.tokens, drawn.first
        rows, length = tokens.shape
        drafts = np.where(blocks.within == 0, tokens, MASK)[:, first:]
        parts = [behind_clean(blocks, first), among_drafts(blocks, first, causal=False)]
        seen = given_pairs(np.concatenate(parts, axis=2))
        drafter = self._drafter
        positions = torch.arange(length).expand(rows, -1)
        states = drafter.states_behind(
            drafter.context(features, positions),
            drafter.weights.embedding[torch.from_numpy(drafts)],
            seen,
            positions=positions[:, first:],
        )
        return lm_head(states, drafter.weights.lm_head)
