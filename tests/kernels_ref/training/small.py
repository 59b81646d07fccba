"""Small models and recipes, and the question that a step of a recipe asks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels_ref.kernels.moe import Router
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import Decoder, RandomDecoder
from kernels_ref.task.vocabulary import TOKENS, WORDS
from kernels_ref.training import objectives
from kernels_ref.training.learners import learner_of
from kernels_ref.training.noise import Blocks
from kernels_ref.training.objectives import Question
from kernels_ref.training.reading import AnyRecipe
from kernels_ref.training.recipe import Recipe
from kernels_ref.training.run import train
from kernels_ref.training.streams import blocks_of

LAYER = LayerShape(2, query_heads=4, kv_heads=2, head_dim=8, ffn=24, qk_norm=True)
DENSE = PassShape(24, len(WORDS), (LAYER,), rotary_theta=1e4, tied=True)
ROUTER = Router(2, score="sigmoid", scaling=2.0)
EXPERTS = replace(
    DENSE, layers=(replace(LAYER, ffn=None, experts=ExpertShape(4, 12, ROUTER, shared=1)),)
)


def tiny(**changes: Any) -> Recipe:
    """A recipe of a second or so."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "description": "For tests.",
        "steps": 6,
        "objective": "denoise",
        "rows": 2,
        "warm_up_steps": 2,
    }
    return Recipe(**{**fields, **changes})


def trained(
    recipe: AnyRecipe,
    folder: Path,
    shape: PassShape = DENSE,
    *,
    start: Path | None = None,
    **named: Any,
) -> bool:
    """`train` of *recipe*, from random weights of *shape* unless it starts elsewhere."""
    return train(recipe, learner_of(recipe, start, shape), folder=folder, **named)


def exact(shape: PassShape = DENSE, seed: int = 0) -> Decoder:
    """A random decoder in float64, where two ways to the same numbers agree."""
    return RandomDecoder(shape, dtype=torch.float64, seed=seed)


@dataclass(frozen=True)
class Asked:
    """A question, and the blocks that it was made of; none of next tokens."""

    question: Question
    blocks: Blocks | None

    @property
    def first(self) -> int:
        """Place of the first noisy token."""
        return int(self.question.positions[0, self.question.first_asked])

    def prompt_tokens(self, row: int) -> int:
        """Length of a prompt: questions end in the only question mark."""
        tokens: list[int] = self.question.tokens[row].tolist()
        return tokens.index(TOKENS["?"]) + 1


def asked(monkeypatch: pytest.MonkeyPatch, decoder: Decoder, recipe: Recipe, step: int) -> Asked:
    """What `loss` asks *decoder* in *step*, as it is about to compare answers with targets."""
    questions: list[Question] = []
    blocks: list[Blocks] = []

    def keep_question(_: Decoder, question: Question) -> torch.Tensor:
        questions.append(question)
        return torch.zeros(())

    def keep_blocks(*arguments: Any, **named: Any) -> Blocks:
        blocks.append(blocks_of(*arguments, **named))
        return blocks[-1]

    with monkeypatch.context() as patch:
        patch.setattr(objectives, "_cross_entropy", keep_question)
        patch.setattr(objectives, "blocks_of", keep_blocks)
        objectives.loss(decoder, recipe, step)
    (question,) = questions
    return Asked(question, blocks[0] if blocks else None)
