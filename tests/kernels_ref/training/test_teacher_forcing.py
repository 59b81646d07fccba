"""Training answers as decoding does: a noisy block meets in one pass what a decoder would show it.

The training pass has clean and noisy tokens side by side under one mask; the decoder fills a cache
query by query. Weights are random and in float64, so equal logits mean equal sight.
"""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.decoding.asking import live_blocks, prefill
from kernels_ref.decoding.query import Cache, IntArray, ModelFacts, Query
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.passes import Decoder
from kernels_ref.task.vocabulary import END, MASK, WORDS
from kernels_ref.training.objectives import logits
from kernels_ref.training.recipe import Recipe
from tests.kernels_ref.training.small import DENSE, EXPERTS, Asked, asked, exact, tiny

SEEN = slice(MASK + 1, None)
"""A decoder never says the mask; training may."""


def model_of(decoder: Decoder, block_tokens: int) -> ReferenceModel:
    """*decoder* as decoders see it."""
    return ReferenceModel(decoder, ModelFacts(MASK, (END,), block_tokens, 256, len(WORDS)))


def said(model: ReferenceModel, query: Query, cache: Cache) -> torch.Tensor:
    """The logits of one row's query."""
    (prediction,) = model.forward([query], cache)
    assert prediction is not None
    return prediction.logits[:, SEEN]


class Training:
    """One training pass of *recipe*: its tokens and its logits by row and place."""

    def __init__(
        self, patch: pytest.MonkeyPatch, decoder: Decoder, recipe: Recipe, step: int
    ) -> None:
        """Ask in *step*."""
        self.recipe = recipe
        self.asked: Asked = asked(patch, decoder, recipe, step)
        self.question = self.asked.question
        with torch.no_grad():
            self._logits = logits(decoder, self.question)[..., SEEN]
        self.length = self.question.first_asked

    def logits(self, row: int, left: int, right: int) -> torch.Tensor:
        """Of noisy places from *left* up to *right*."""
        return self._logits[row, left - self.asked.first : right - self.asked.first]

    def clean(self, row: int) -> IntArray:
        """The row without noise."""
        return self.question.tokens[row, : self.length]

    def noisy(self, row: int) -> IntArray:
        """The row with the noise where there is any."""
        behind = self.question.tokens[row, self.length :]
        return np.concatenate([self.clean(row)[: self.asked.first], behind])

    @property
    def rows(self) -> range:
        """All rows."""
        return range(len(self.question.tokens))


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the last digits."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


BLOCK_CAUSAL = {
    "single groups": tiny(schedule="independent", rows=3),
    "small blocks and wrong tokens": tiny(block_tokens=4, corruption=0.5),
    "groups of two": tiny(grouping="multiple", max_group=2, schedule="chain-uniform", rows=3),
    "groups of three": tiny(
        grouping="multiple", max_group=3, schedule="chain-uniform", block_tokens=8, seed=3
    ),
    "self-drafts": tiny(grouping="multiple", max_group=2, self_draft_share=1.0, steps=1),
}


@pytest.mark.parametrize("name", BLOCK_CAUSAL)
@pytest.mark.parametrize("shape", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_block_causal_training_is_decoding_with_a_window(
    name: str, shape: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every block of every group: prefill and stored blocks, then the noisy window up to it.

    The queries are those of the decoders themselves, whole windows with dummy slots included.
    """
    decoder = exact(DENSE if shape is DENSE else EXPERTS)
    recipe = BLOCK_CAUSAL[name]
    training = Training(monkeypatch, decoder, recipe, 0)
    model = model_of(decoder, recipe.block_tokens)
    compared = 0
    for row in training.rows:
        for left, right, sequence, cache in windows(training, model, row):
            for padded in (None, right - left + 1):
                query = live_blocks(sequence, left, right, padded_blocks=padded)
                same(
                    said(model, query, cache),
                    training.logits(row, query.left, query.right),
                )
                compared += 1
    assert compared >= 2 * len(training.rows)


def windows(
    training: Training, model: ReferenceModel, row: int
) -> Iterator[tuple[int, int, Sequence, Cache]]:
    """Every noise group from its first block up to each of its blocks, what is before it cached."""
    block_tokens, prompt = training.recipe.block_tokens, training.asked.prompt_tokens(row)
    clean, noisy = training.clean(row), training.noisy(row)
    sequence = Sequence(
        clean[:prompt].tolist(),
        facts=model.facts,
        block_tokens=block_tokens,
        output_tokens=len(clean) - prompt,
    )
    cache = model.new_cache(1, len(clean) + block_tokens)
    query = prefill(sequence)
    if query is not None:
        model.forward([query], cache)
    offset = sequence.first_start // block_tokens
    assert training.asked.blocks is not None
    firsts = training.asked.blocks.group[row, ::block_tokens] - offset
    stored = 0
    for block in range(sequence.n_blocks):
        # A group that begins in the prompt has no noise there.
        left = max(0, int(firsts[block + offset]))
        if left == block:
            # The group before is over: its clean tokens are stored.
            sequence.tokens[:] = clean
            for done in range(stored, block):
                model.forward([live_blocks(sequence, done, done + 1, kind="store")], cache)
            stored = block
            sequence.tokens[sequence.start(left) :] = noisy[sequence.start(left) :]
        yield left, block + 1, sequence, cache


def plain(left: int, tokens: IntArray, horizon: IntArray) -> Query:
    """A query that sees up to *horizon*."""
    return Query("denoise", left, tokens, horizon, len(tokens))


def block_ends(prompt: int, length: int, block_tokens: int) -> IntArray:
    """End of its block for each place behind a prompt, the sequence's end for the last one."""
    behind = np.arange(length - prompt)
    return np.minimum(prompt + (behind // block_tokens + 1) * block_tokens, length)


@pytest.mark.parametrize("together", [True, False])
def test_discrete_diffusion_forcing_is_decoding_behind_a_full_prefix(
    monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """The prompt sees all of itself, then all noisy blocks at once, each up to its own end.

    It is the same whether the prompt is cached before or goes through beside the first blocks.
    """
    recipe = tiny(grouping="all", schedule="monotonic", prompt="prefix-full", rows=3)
    decoder = exact()
    training = Training(monkeypatch, decoder, recipe, 0)
    model = model_of(decoder, 16)
    for row in training.rows:
        prompt, length = training.asked.prompt_tokens(row), training.length
        noisy, cache = training.noisy(row), model.new_cache(1, length)
        of_prompt, ends = np.full(prompt, prompt), block_ends(prompt, length, 16)
        if together:
            whole = plain(0, noisy, np.concatenate([of_prompt, ends]))
            found = said(model, whole, cache)[prompt:]
        else:
            model.forward([plain(0, noisy[:prompt], of_prompt)], cache)
            found = said(model, plain(prompt, noisy[prompt:], ends), cache)
        same(found, training.logits(row, prompt, length))


def test_canvases_are_decoded_behind_a_causal_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is clean sees up to itself, a canvas all that is clean before it and all of itself."""
    recipe = tiny(noise="uniform", prompt="causal", rows=3)
    decoder = exact()
    training = Training(monkeypatch, decoder, recipe, 0)
    model = model_of(decoder, 16)
    for row in training.rows:
        prompt, length = training.asked.prompt_tokens(row), training.length
        clean, noisy = training.clean(row), training.noisy(row)
        for left in range(prompt, length, 16):
            right = min(left + 16, length)
            cache = model.new_cache(1, length)
            model.forward([plain(0, clean[:left], np.arange(1, left + 1))], cache)
            canvas = plain(left, noisy[left:right], np.full(right - left, right))
            same(said(model, canvas, cache), training.logits(row, left, right))


def test_next_tokens_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoregressive decoder's cached steps give the training pass's rows."""
    decoder = exact()
    question = asked(monkeypatch, decoder, tiny(objective="next-token"), 0).question
    with torch.no_grad():
        expected = logits(decoder, question)[..., SEEN]
    model = model_of(decoder, 1)
    for row, tokens in enumerate(question.tokens):
        cache = model.new_cache(1, len(tokens))
        for place in range(len(tokens)):
            step = plain(place, tokens[place : place + 1], np.array([place + 1]))
            same(said(model, step, cache)[0], expected[row, place])
        assert question.targets[row, :-1].tolist() == tokens[1:].tolist()
