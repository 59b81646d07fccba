"""Drafters train as they draft: every place compares what a decoder would be told there.

The training pass has all blocks, or all passes, of a sequence side by side under one mask; the
decoder fills caches query by query. Weights are random and in float64, so equal log-probabilities
mean equal sight.
"""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.checkpoint import read_checkpoint
from kernels_ref.decoding.query import Model, Prediction, Query
from kernels_ref.decoding.reference import reference_model
from kernels_ref.drafting.reading import drafted_model
from kernels_ref.named_weights import named_tensors
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.draft_recipe import BlockStage, DraftObjective, DraftRecipe
from tests.kernels_ref.drafting.pairs import chain, said, same
from tests.kernels_ref.training.small_drafters import (
    OBJECTIVES,
    Asked,
    asked,
    exact_learner,
    stir,
    tiny_draft,
    with_target,
)

SAID = slice(MASK + 1, None)
BLOCKS = (2, 5, 8)


class Training:
    """One step of an objective, and the model that its checkpoint makes."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, recipe: DraftRecipe) -> None:
        """Ask in step 1."""
        start = with_target(folder)
        self.recipe = recipe
        self.learner = exact_learner(patch, recipe, start)
        self.asked: Asked = asked(patch, self.learner, recipe, 1)
        self.learner.write(folder, [1.0])
        path = folder / f"{recipe.name}.yaml"
        self.model: Model = drafted_model(path, torch.float64).model
        self.target = reference_model(read_checkpoint(start, torch.float64))
        self.tokens, self.first = self.asked.tokens, self.asked.drawn.first

    @property
    def length(self) -> int:
        """Of every row."""
        return int(self.tokens.shape[1])

    def told(self) -> list[torch.Tensor]:
        """What the target says of each place's next token, row by row, [places, tokens]."""
        rows = [chain("verify", 0, tokens) for tokens in self.tokens]
        answers = said(self.target, rows, self.target.new_cache(len(rows), self.length))
        return [answer.logits[:, SAID].log_softmax(dim=1) for answer in answers]

    def drafted(self, before: list[Query], drafts: list[Query]) -> list[Prediction]:
        """What *drafts* are told behind a prefill, one row of a batch each."""
        cache = self.model.new_cache(len(before), self.length + max(BLOCKS))
        prefilled = said(self.model, before, cache)
        return said(
            self.model,
            [
                query if self.recipe.objective != "dflash" else _with(query, answer)
                for query, answer in zip(drafts, prefilled, strict=True)
            ],
            cache,
        )


def _with(query: Query, prefilled: Prediction) -> Query:
    """*query* with the features of all places before it."""
    fields = {**vars(query), "features": prefilled.features}
    return Query(**fields)


def trained(
    patch: pytest.MonkeyPatch, folder: Path, objective: DraftObjective, block: int
) -> Training:
    """A step with blocks of *block* alone."""
    recipe = tiny_draft(objective, blocks=(BlockStage((block,)),), decay=0.9)
    return Training(patch, folder, recipe)


def log_shares(answer: Prediction) -> torch.Tensor:
    """Of all tokens but the mask, [asked, tokens]."""
    return answer.logits[:, SAID].log_softmax(dim=1)


@pytest.mark.parametrize("block", BLOCKS)
def test_noise_adapters_draft_behind_a_clean_token(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uno: the last token without adapters, behind it noise with them, each about the next place.

    The first of these predictions is the target's own.
    """
    training = trained(monkeypatch, tmp_path, "noise-adapters", block)
    (noise,), (compared,) = training.asked.noise, training.asked.compared
    clean, first, length = training.tokens, training.first, training.length
    places = training.asked.whole_blocks()
    assert max(right - left for _, left, right in places) == block - 1
    before, drafts = [], []
    for row, left, right in places:
        tokens = np.concatenate([clean[row, left - 1 : left], noise[row, left:right]])
        on = np.arange(len(tokens)) > 0
        before.append(chain("prefill", 0, clean[row, : left - 1]))
        drafts.append(chain("draft", left - 1, tokens, adapted=on))
    target = training.told()
    answers = training.drafted(before, drafts)
    for (row, left, right), answer in zip(places, answers, strict=True):
        found = log_shares(answer)
        same(found[0], target[row][left - 1])
        # Of the last place of all nothing is known.
        end = min(right, length - 1)
        same(found[1 : end - left + 1], compared.log_q[row, left - first : end - first])
    for row, expected in enumerate(target):
        same(compared.log_p[row], expected[first : length - 1])


def block_query(left: int, token: int, count: int, *, adapted: bool) -> Query:
    """A token and masks behind it, all of which see one another."""
    tokens = np.array([token] + [MASK] * (count - 1))
    on = np.ones(count, dtype=np.bool_) if adapted else None
    return Query("draft", left, tokens, np.full(count, left + count), count, asked=1, adapted=on)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("objective", ["mask-adapters", "dflash"])
def test_masks_are_filled_behind_a_clean_token(
    objective: DraftObjective, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last token and masks see one another and what is clean before, each about its own place.

    By adapters on all of them, or by a drafter that has the features of the places before.
    """
    training = trained(monkeypatch, tmp_path, objective, block)
    (compared,), clean = training.asked.compared, training.tokens
    first, length = training.first, training.length
    adapted = objective == "mask-adapters"
    places = training.asked.whole_blocks()
    assert max(right - left for _, left, right in places) == block
    before = [chain("prefill", 0, clean[row, :left]) for row, left, _ in places]
    drafts = [
        block_query(left, int(clean[row, left]), right - left, adapted=adapted)
        for row, left, right in places
    ]
    answers = training.drafted(before, drafts)
    for (row, left, right), answer in zip(places, answers, strict=True):
        same(log_shares(answer), compared.log_q[row, left + 1 - first : right - first])
    for row, expected in enumerate(training.told()):
        same(compared.log_p[row], expected[first - 1 : length - 1])


@pytest.mark.parametrize("block", BLOCKS)
def test_eagle3_drafts_a_chain_behind_any_place(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass k of training is what a decoder is told k tokens behind the last feature of the target.

    Decoders stop behind every third place; pass 0 is theirs behind any place of the prompt too.
    """
    training = trained(monkeypatch, tmp_path, "eagle3", block)
    clean, first, length = training.tokens, training.first, training.length
    passes = training.asked.compared
    assert len(passes) == block
    known = mapped(tmp_path)
    stops = [
        (row, last)
        for row in range(len(clean))
        for last in [1, *range(first - 2, length - block - 2, 3)]
    ]
    # A stop is the last place of which the target's features are known.
    cache = training.model.new_cache(len(stops), length)
    prefilled = said(
        training.model,
        [chain("prefill", 0, clean[row, : last + 1]) for row, last in stops],
        cache,
    )
    queries = [
        chain("draft", 0, clean[row, 1 : last + 2], asked=last, features=answer.features)
        for (row, last), answer in zip(stops, prefilled, strict=True)
    ]
    met = 0
    for number, compared in enumerate(passes):
        answers = said(training.model, queries, cache)
        left = 0 if number == 0 else first - 1
        assert compared.log_q.shape[1] == length - 2 - left
        queries = []
        for (row, last), answer in zip(stops, answers, strict=True):
            place = last + number
            drafted = answer.logits[-1]
            assert drafted.isfinite().nonzero().flatten().tolist() == known
            assert answer.features is not None
            if number == 0 or last >= first - 2:
                met += 1
                same(drafted[known].log_softmax(dim=0), compared.log_q[row, place - left])
            token = clean[row, place + 2 : place + 3]
            queries.append(chain("draft", place + 1, token, features=answer.features[-1:]))
    assert met > block * len(clean) * 3
    for row, target in enumerate(training.told()):
        of_known = target[:, [token - (MASK + 1) for token in known]]
        for number, compared in enumerate(passes):
            left = 0 if number == 0 else first - 1
            same(compared.log_p[row], of_known[left + 1 : length - 1])


def mapped(folder: Path) -> list[int]:
    """The tokens that the drafter in *folder* knows."""
    from safetensors.torch import load_file

    return [int(token) for token in load_file(folder / "tiny-draft.safetensors")["draft_to_target"]]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_which_places_count_and_how_much(
    objective: DraftObjective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a prompt, nothing that is given, and places less the later they are in a block.

    In EAGLE-3 a later pass counts less, and none where the state before it is not a decoder's.
    """
    training = trained(monkeypatch, tmp_path, objective, 5)
    drawn, step = training.asked.drawn, training.asked
    weights, first, length = drawn.given.weights, training.first, training.length
    if objective == "eagle3":
        for number, compared in enumerate(step.compared):
            left = 0 if number == 0 else first - 1
            for row, place in np.ndindex(compared.weights.shape):
                # The first state of a line is of pass 0 at the place before its first one.
                met = number == 0 or left + place - number >= first - 2
                expected = weights[row, left + place + 2] if met else 0.0
                assert compared.weights[row, place] == expected
        values = [float(compared.value.detach()) for compared in step.compared]
        shares = [0.9**number for number in range(len(values))]
        mean = sum(v * s for v, s in zip(values, shares, strict=True)) / sum(shares)
        assert float(step.value.detach()) == pytest.approx(mean, rel=1e-6)
        return
    (compared,) = step.compared
    assert compared.weights.shape == tuple(compared.log_q.shape[:2])
    expected_weights = np.zeros((len(weights), length - first))
    for row, left, right in step.whole_blocks():
        for place in range(left, right):
            fall = 0.9 ** (place - left)
            if objective == "noise-adapters":
                ahead = place + 1
                expected_weights[row, place - first] = (
                    weights[row, ahead] * fall if ahead < length else 0.0
                )
            elif place > left:
                expected_weights[row, place - first] = weights[row, place] * fall
    shown = compared.weights.shape[1]
    np.testing.assert_allclose(compared.weights, expected_weights[:, :shown], rtol=1e-12)
    assert not expected_weights[:, shown:].any()
    assert step.value is compared.value


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_only_the_drafter_learns(
    objective: DraftObjective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients flow to each of its tensors, and none to the target or through what it says.

    What the target says is the same bit by bit whatever the drafter is.
    """
    training = trained(monkeypatch, tmp_path, objective, 5)
    step = training.asked
    assert not any(compared.log_p.requires_grad for compared in step.compared)
    step.value.backward()
    for name, tensor in training.learner.tensors.items():
        assert tensor.grad is not None, name
        assert tensor.grad.any(), name
    own = named_tensors(training.target.decoder.weights, tied=False)
    assert not any(tensor.requires_grad for tensor in own.values())
    stir(training.learner, seed=1)
    again = asked(monkeypatch, training.learner, training.recipe, 1)
    for before, after in zip(step.compared, again.compared, strict=True):
        assert torch.equal(before.log_p, after.log_p)
        assert not torch.equal(before.log_q, after.log_q)
