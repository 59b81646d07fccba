"""AdapterLearner: adapters that turn a next-token model into a drafter of blocks.

Noise adapters learn Uno's one-step block denoising: random tokens stand where drafts are wanted,
each sees those before it, and predicts the next token. Mask adapters learn what Nemotron-Labs'
self-speculation asks: a token and masks behind it, which see one another, each predicting itself.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from kernels_ref.drafting.adapters import new_adapters, with_adapters
from kernels_ref.drafting.checkpoint import DrafterManifest
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.random_weights import normal
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.batches import FloatArray, IntArray
from kernels_ref.training.draft_loss import draft_loss, log_probabilities
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.draft_streams import DraftBlocks, clean_and_drafts, draft_blocks
from kernels_ref.training.drafters import Step, drawn_step, target_of, write_trained
from kernels_ref.training.learner import leaves
from kernels_ref.training.noise import uniform
from kernels_ref.training.streams import given_pairs


class AdapterLearner:
    """The adapters alone; the target's own weights stay as they are."""

    def __init__(self, recipe: DraftRecipe, start: Path | None) -> None:
        """Beside the target whose manifest is *start*; raises CheckpointError for a wrong one."""
        self._recipe = recipe
        self._target = target_of(recipe, start)
        draw = normal(torch.float32, "cpu", recipe.seed)
        self.tensors = leaves(new_adapters(self._target.decoder, recipe.adapters, draw))
        self._decoder = with_adapters(self._target.decoder, recipe.adapters, self.tensors)
        self._noisy = recipe.objective == "noise-adapters"

    def loss(self, step: int) -> torch.Tensor:
        """Of drafts against what the target says in the same pass over [clean | drafts]."""
        drawn = drawn_step(self._recipe, step)
        given, first = drawn.given, drawn.first
        length = given.tokens.shape[1]
        # Of a block of B, noise stands in B - 1 places: the token before them is clean.
        places = drawn.block_tokens - 1 if self._noisy else drawn.block_tokens
        blocks = draft_blocks(
            len(given.tokens), length, first=first, block_tokens=places, generator=drawn.generator
        )
        drafts = self._drafts(drawn, blocks)[:, first:]
        logits = self._logits(given.tokens, drafts, blocks, first)
        # The output at a place is about the next token: of drafts by noise too.
        ahead = 1 if self._noisy else 0
        drafted = logits[:, length : 2 * length - first - ahead]
        told = logits[:, first - 1 + ahead : length - 1]
        weights = self._weights(given.weights, blocks)[:, first : length - ahead]
        stage = self._recipe.stage(self._recipe.loss, step)
        log_q, log_p = log_probabilities(drafted), log_probabilities(told.detach())
        return draft_loss(log_q, log_p, weights, stage)

    def write(self, folder: Path, losses: Sequence[float]) -> DrafterManifest:
        """Put the adapters into *folder* and say what their manifest says."""
        return write_trained(
            self._recipe,
            folder,
            self.tensors,
            losses,
            target=self._target,
            shape=asdict(self._recipe.adapters),
        )

    def _drafts(self, drawn: Step, blocks: DraftBlocks) -> IntArray:
        """What stands in the places of drafts, [rows, length]."""
        tokens = drawn.given.tokens
        if self._noisy:
            return uniform(drawn.given, np.ones_like(tokens, dtype=np.bool_), drawn.generator)
        return np.where(blocks.within == 0, tokens, MASK)

    def _weights(self, weights: FloatArray, blocks: DraftBlocks) -> FloatArray:
        """Of what is predicted at each place of a draft, [rows, length]."""
        if self._noisy:
            ahead = np.concatenate([weights[:, 1:], np.zeros_like(weights[:, :1])], axis=1)
            return blocks.weighted(ahead, self._recipe.decay)
        drafted = np.where(blocks.within == 0, 0.0, weights)
        return blocks.weighted(drafted, self._recipe.decay)

    def _logits(
        self, clean: IntArray, drafts: IntArray, blocks: DraftBlocks, first: int
    ) -> torch.Tensor:
        """Of [clean | drafts], adapters on for the drafts alone, [rows, tokens, vocab]."""
        rows, length = clean.shape
        tokens = torch.from_numpy(np.concatenate([clean, drafts], axis=1))
        positions = np.concatenate([np.arange(length), np.arange(first, length)])
        seen = given_pairs(clean_and_drafts(blocks, first, causal=self._noisy))
        gate = torch.arange(tokens.shape[1]) >= length
        decoder = self._decoder
        states = decoder.states(
            decoder.weights.embedding[tokens],
            seen,
            plans=decoder.plans(seen, tokens.shape[1], None),
            positions=torch.from_numpy(positions).expand(rows, -1),
            gate=gate.expand(rows, -1),
        )
        return lm_head(states, decoder.weights.lm_head)
