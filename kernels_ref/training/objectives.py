"""What one training step asks of the model: a loss from a step's problems and its noise."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.visibility import Visibility, causal
from kernels_ref.passes import Decoder
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.batches import BoolArray, FloatArray, IntArray, Sequences, sequences
from kernels_ref.training.noise import Blocks, corrupted, masked, uniform
from kernels_ref.training.recipe import Recipe
from kernels_ref.training.streams import blocks_of, two_streams

LOWEST_CONFIDENCE = 0.3
"""A self-draft fills masks above a confidence drawn between this and 1."""


@dataclass(frozen=True)
class Question:
    """Tokens in, targets and weights out, for the queries from *first_asked* on."""

    tokens: IntArray
    """[rows, queries]"""
    positions: IntArray
    visibility: Visibility
    first_asked: int
    targets: IntArray
    """[rows, asked]"""
    weights: FloatArray
    """[rows, asked]"""


def loss(decoder: Decoder, recipe: Recipe, step: int) -> torch.Tensor:
    """Weighted mean cross-entropy of *step*, which with the recipe's seed decides all chance."""
    generator = np.random.default_rng((recipe.seed, step))
    given = sequences(recipe.rows, recipe.block_tokens, int(generator.integers(2**62)))
    if recipe.objective == "next-token":
        return _cross_entropy(decoder, _next_token(given))
    return _cross_entropy(decoder, _denoise(decoder, recipe, given, step, generator))


def logits(decoder: Decoder, question: Question) -> torch.Tensor:
    """Of the asked queries, [rows, asked, vocab]."""
    tokens = torch.from_numpy(question.tokens)
    plans = decoder.plans(question.visibility, tokens.shape[1], None)
    states = decoder.states(
        decoder.weights.embedding[tokens],
        question.visibility,
        plans=plans,
        positions=torch.from_numpy(question.positions),
    )
    return lm_head(states[:, question.first_asked :], decoder.weights.lm_head)


def _cross_entropy(decoder: Decoder, question: Question) -> torch.Tensor:
    by_token = cross_entropy(
        logits(decoder, question).flatten(0, 1),
        torch.from_numpy(question.targets).flatten(),
        reduction="none",
    )
    weights = torch.from_numpy(question.weights).to(by_token.dtype).flatten()
    return (by_token * weights).sum() / weights.sum()


def _next_token(given: Sequences) -> Question:
    """Every token from those before it."""
    rows, length = given.tokens.shape
    seen = causal(torch.zeros(rows, dtype=torch.int64), torch.full((rows,), length - 1))
    positions = np.broadcast_to(np.arange(length - 1), (rows, length - 1)).copy()
    return Question(
        given.tokens[:, :-1].copy(), positions, seen, 0, given.tokens[:, 1:], given.weights[:, 1:]
    )


def _denoise(
    decoder: Decoder,
    recipe: Recipe,
    given: Sequences,
    step: int,
    generator: np.random.Generator,
) -> Question:
    """Every token at its own place, from a noisy copy of its block."""
    blocks = blocks_of(
        given,
        block_tokens=recipe.block_tokens,
        prompt=recipe.prompt,
        grouping=recipe.grouping,
        max_group=recipe.max_group,
        generator=generator,
    )
    hidden = masked(given, blocks, recipe.schedule, generator)
    wrong = corrupted(given, blocks, ~hidden, recipe.corruption, generator)
    if recipe.noise == "uniform":
        noisy = uniform(given, hidden, generator)
    else:
        noisy = np.where(hidden, MASK, wrong)
    question = _two_streams(recipe, given, blocks, noisy, hidden)
    drafts = step >= recipe.steps // 2 and generator.random() < recipe.self_draft_share
    return _self_drafted(decoder, question, generator) if drafts else question


def _two_streams(
    recipe: Recipe, given: Sequences, blocks: Blocks, noisy: IntArray, hidden: BoolArray
) -> Question:
    block_tokens = recipe.block_tokens
    first = int(given.prompt_tokens.min()) // block_tokens * block_tokens
    rows, length = given.tokens.shape
    positions = np.concatenate([np.arange(length), np.arange(first, length)])
    weights = np.where(hidden | (recipe.loss_on == "all"), given.weights, 0.0)
    return Question(
        tokens=np.concatenate([given.tokens, noisy[:, first:]], axis=1),
        positions=np.broadcast_to(positions, (rows, len(positions))).copy(),
        visibility=two_streams(blocks, recipe.prompt, first),
        first_asked=length,
        targets=given.tokens[:, first:],
        weights=weights[:, first:],
    )


def _self_drafted(decoder: Decoder, question: Question, generator: np.random.Generator) -> Question:
    """*question* with the masks filled of which the model is sure enough, rightly or wrongly."""
    with torch.no_grad():
        answer = logits(decoder, question)
        answer[..., MASK] = -torch.inf
        probability, token = answer.softmax(dim=-1).max(dim=-1)
    rows = len(question.tokens)
    least = LOWEST_CONFIDENCE + (1 - LOWEST_CONFIDENCE) * generator.random((rows, 1))
    tokens = question.tokens.copy()
    asked = tokens[:, question.first_asked :]
    fill = (asked == MASK) & (probability.numpy() > least)
    tokens[:, question.first_asked :] = np.where(fill, token.numpy(), asked)
    return replace(question, tokens=tokens)
