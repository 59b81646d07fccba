"""The loss of a step against one written out, and what its noise is made of."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.kernels.visibility import dense
from kernels_ref.passes import Decoder
from kernels_ref.task.vocabulary import END, MASK, TOKENS, WORDS
from kernels_ref.training.objectives import Question, logits, loss
from kernels_ref.training.recipe import Recipe
from tests.kernels_ref.training.small import asked, exact, tiny

RECIPES = {
    "next token": tiny(objective="next-token"),
    "masked only": tiny(loss_on="masked"),
    "all places": tiny(corruption=0.3),
    "behind a prefix": tiny(prompt="prefix-full", grouping="all", schedule="monotonic"),
    "masked canvas": tiny(prompt="causal", noise="uniform", loss_on="masked"),
}


def naive_weight(clean: list[int], place: int) -> float:
    """Prompts 0, numbers 2, behind the first end 0.2, the rest 1."""
    if place <= clean.index(TOKENS["?"]):
        return 0.0
    if place > clean.index(END):
        return 0.2
    return 2.0 if WORDS[clean[place]].isdigit() else 1.0


def naive_loss(decoder: Decoder, recipe: Recipe, question: Question) -> float:
    """Place by place: minus the logarithm of the soft-max share of the right token."""
    with torch.no_grad():
        said = logits(decoder, question).numpy()
    total = weight = 0.0
    shift = int(recipe.objective == "next-token")
    for row, queries in enumerate(question.tokens):
        noisy = queries[question.first_asked :]
        clean = queries.tolist() if shift else queries[: question.first_asked].tolist()
        for index, scores in enumerate(said[row]):
            place = int(question.positions[row, question.first_asked + index]) + shift
            right = clean[place] if place < len(clean) else END
            mine = naive_weight([*clean, END], place)
            if recipe.loss_on == "masked" and recipe.noise == "mask" and noisy[index] != MASK:
                mine = 0.0
            if recipe.loss_on == "masked" and recipe.noise == "uniform":
                # Where a random token is the right one nobody sees that it was noisy.
                mine = mine if question.weights[row, index] else 0.0
                assert mine or noisy[index] == right or not naive_weight(clean, place)
            share = np.exp(scores - scores.max())
            total += mine * -np.log(share[right] / share.sum())
            weight += mine
    return total / weight


@pytest.mark.parametrize("name", RECIPES)
def test_the_loss_is_a_weighted_mean_of_cross_entropies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every objective, weights and targets included."""
    decoder, recipe = exact(), RECIPES[name]
    for step in range(2):
        question = asked(monkeypatch, decoder, recipe, step).question
        found = float(loss(decoder, recipe, step))
        assert found == pytest.approx(naive_loss(decoder, recipe, question), abs=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_seed_and_step_decide_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again it is the same, another step or seed is another question."""
    decoder, recipe = exact(), RECIPES[name]
    first, again, other, seeded = (
        asked(monkeypatch, decoder, recipe_, step).question.tokens.tolist()
        for recipe_, step in (
            (recipe, 4),
            (recipe, 4),
            (recipe, 5),
            (tiny(**{**vars(recipe), "seed": 1}), 4),
        )
    )
    assert first == again
    assert first != other
    assert first != seeded


def test_noise_of_masks_is_masks_and_wrong_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without corruption a noisy token is the mask or the right one, and no prompt is hidden."""
    for step in range(5):
        question = asked(monkeypatch, exact(), tiny(), step).question
        noisy = question.tokens[:, question.first_asked :]
        hidden = noisy == MASK
        assert hidden.any()
        assert (noisy[~hidden] == question.targets[~hidden]).all()
        assert (question.weights[hidden] > 0).all()


def test_self_drafts_fill_masks_the_model_is_sure_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """From half of the steps on; what is filled is its best guess, the surest of a row first."""
    # A model that is sure of something: random ones are of nothing.
    decoder = exact()
    decoder.weights.final_norm.mul_(8.0)
    alone, drafting = tiny(), tiny(self_draft_share=1.0)
    before = [asked(monkeypatch, decoder, r, 2).question.tokens for r in (alone, drafting)]
    assert (before[0] == before[1]).all()

    without = asked(monkeypatch, decoder, alone, 3).question
    filled = asked(monkeypatch, decoder, drafting, 3).question
    changed = without.tokens != filled.tokens
    assert changed.any()
    assert (without.tokens[changed] == MASK).all()
    assert not changed[:, : without.first_asked].any()
    assert (filled.targets == without.targets).all()
    assert (filled.weights == without.weights).all()
    both = (2, filled.tokens.shape[1], filled.tokens.shape[1])
    assert torch.equal(dense(filled.visibility, *both), dense(without.visibility, *both))
    guessed = logits(decoder, without).softmax(-1)
    guessed[..., MASK] = 0.0
    probability, token = (t.numpy() for t in (guessed / guessed.sum(-1, keepdim=True)).max(-1))
    here = changed[:, without.first_asked :]
    masks = without.tokens[:, without.first_asked :] == MASK
    assert (filled.tokens[:, without.first_asked :][here] == token[here]).all()
    for row in range(2):
        kept = probability[row][masks[row] & ~here[row]]
        if here[row].any() and kept.size:
            assert probability[row][here[row]].min() > kept.max()
            assert probability[row][here[row]].min() > 0.3
