"""The loss of drafters: Uno's equations 9 and 10 in plain sums, stages, and what is never said."""

import math

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.draft_loss import draft_loss, log_probabilities
from kernels_ref.training.draft_recipe import BlockStage, LossStage
from kernels_ref.training.drafters import drawn_step
from tests.kernels_ref.training.small_drafters import tiny_draft


def drawn(seed: int, places: tuple[int, int] = (2, 4), tokens: int = 7) -> torch.Tensor:
    """Random log-probabilities in float64."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(*places, tokens, generator=generator, dtype=torch.float64)
    return logits.log_softmax(dim=-1)


def by_hand(stage: LossStage, q: list[float], p: list[float]) -> float:
    """Of one place, from probabilities of drafter and target."""
    divergence = sum(mine * math.log(mine / theirs) for mine, theirs in zip(q, p, strict=True))
    variation = sum(abs(mine - theirs) for mine, theirs in zip(q, p, strict=True))
    entropy = -sum(theirs * math.log(mine) for mine, theirs in zip(q, p, strict=True))
    return (
        stage.consistency * divergence
        + stage.total_variation * variation
        + stage.cross_entropy * entropy
    )


STAGES = {
    "consistency": LossStage(consistency=1.0),
    "total variation": LossStage(total_variation=1.0),
    "cross-entropy": LossStage(cross_entropy=1.0),
    "all": LossStage(consistency=0.3, total_variation=2.0, cross_entropy=0.7),
}


@pytest.mark.parametrize("name", STAGES)
def test_the_loss_is_a_weighted_mean_of_sums_over_tokens(name: str) -> None:
    """KL(drafter || target), sum of |q - p|, cross-entropy under the target, place by place."""
    log_q, log_p, stage = drawn(1), drawn(2), STAGES[name]
    weights = np.random.default_rng(0).random((2, 4))
    weights[0, 1] = 0.0
    total = 0.0
    for row, place in np.ndindex(weights.shape):
        q, p = (part[row, place].exp().tolist() for part in (log_q, log_p))
        total += float(weights[row, place]) * by_hand(stage, q, p)
    found = draft_loss(log_q, log_p, weights, stage)
    assert float(found) == pytest.approx(total / weights.sum(), rel=1e-12)


@given(seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_bounds(seed: int) -> None:
    """Nothing where both agree; both distances are above nothing elsewhere, TV at most two.

    TV is at most the root of twice the divergence (Pinsker).
    """
    log_q, log_p, even = drawn(seed), drawn(seed + 1), np.ones((2, 4))
    consistency, variation = STAGES["consistency"], STAGES["total variation"]
    for stage in (consistency, variation):
        assert float(draft_loss(log_p, log_p, even, stage)) == pytest.approx(0, abs=1e-12)
        assert float(draft_loss(log_q, log_p, even, stage)) > 0
    for row, place in np.ndindex(2, 4):
        alone = np.zeros((2, 4))
        alone[row, place] = 0.3
        divergence = float(draft_loss(log_q, log_p, alone, consistency))
        distance = float(draft_loss(log_q, log_p, alone, variation))
        assert distance <= min(2.0, math.sqrt(2 * divergence)) + 1e-12


def test_acceptance_is_what_total_variation_takes_away() -> None:
    """One less half of it is the chance that a draft is accepted (Leviathan et al., 2023)."""
    log_q, log_p = drawn(3, (1, 1)), drawn(4, (1, 1))
    q, p = log_q.exp().flatten().tolist(), log_p.exp().flatten().tolist()
    accepted = sum(mine * min(1.0, theirs / mine) for mine, theirs in zip(q, p, strict=True))
    found = draft_loss(log_q, log_p, np.ones((1, 1)), STAGES["total variation"])
    assert 1 - float(found) / 2 == pytest.approx(accepted, rel=1e-12)


def test_the_mask_is_never_said() -> None:
    """Whatever its logit is: the other tokens alone share the probability, or some of them."""
    logits = torch.randn(2, 3, 6, dtype=torch.float64)
    with_mask = logits.clone()
    with_mask[..., MASK] += 50.0
    found = log_probabilities(with_mask)
    assert torch.equal(found, log_probabilities(logits))
    for row, place in np.ndindex(2, 3):
        shares = [math.exp(value) for value in logits[row, place].tolist()[MASK + 1 :]]
        expected = [math.log(share / sum(shares)) for share in shares]
        assert found[row, place].tolist() == pytest.approx(expected)
    # Of a few tokens their share of the whole, not of one another.
    some = torch.tensor([2, 5], dtype=torch.int32)
    assert torch.equal(log_probabilities(logits, some), found[..., [1, 4]])


def test_stages_follow_one_another_by_step() -> None:
    """Each up to its share of the steps: 4 of 10, then 3, then 3."""
    loss = (LossStage(0.4, 1.0), LossStage(0.7, 2.0), LossStage(1.0, 3.0))
    recipe = tiny_draft("eagle3", steps=10, loss=loss)
    found = [recipe.stage(recipe.loss, step).consistency for step in range(10)]
    assert found == [1.0] * 4 + [2.0] * 3 + [3.0] * 3
    assert recipe.stage((LossStage(),), 9) == LossStage()


def test_a_share_that_is_no_whole_step() -> None:
    """A stage that ends within a step has that step: 0.25 of 6 are the first two."""
    blocks = (BlockStage((2,), 0.25), BlockStage((3,), 1.0))
    recipe = tiny_draft("dflash", blocks=blocks)
    assert [recipe.stage(blocks, step).blocks for step in range(6)] == [(2,)] * 2 + [(3,)] * 4


def test_what_a_step_draws() -> None:
    """A block of its stage, problems of the seed; the longest block decides how long rows are."""
    blocks = (BlockStage((2, 3), 0.5), BlockStage((4, 8, 16), 1.0))
    recipe = tiny_draft("noise-adapters", steps=60, blocks=blocks, rows=1)
    assert recipe.largest_block == 16
    drawn_blocks = [drawn_step(recipe, step).block_tokens for step in range(60)]
    assert set(drawn_blocks[:30]) == {2, 3}
    assert set(drawn_blocks[30:]) == {4, 8, 16}
    first, again, other = (drawn_step(recipe, step) for step in (3, 3, 4))
    assert np.array_equal(first.given.tokens, again.given.tokens)
    assert first.generator.random() == again.generator.random()
    assert not np.array_equal(first.given.tokens[:, :30], other.given.tokens[:, :30])
    assert first.given.tokens.shape[1] % 16 == 0
    assert first.first == first.given.prompt_tokens.min()
