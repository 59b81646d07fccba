"""A target and its drafter, read from disk and asked as one model."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.decoding.query import IntArray, Model, Query
from kernels_ref.drafting.adapters import with_adapters
from kernels_ref.drafting.dflash import random_dflash
from kernels_ref.drafting.eagle3 import random_eagle3
from kernels_ref.drafting.model import PairCache
from kernels_ref.drafting.reading import drafted_model
from kernels_ref.named_weights import filled, tensors_in
from kernels_ref.passes import Decoder
from kernels_ref.task.vocabulary import MASK
from tests.kernels_ref.drafting import naive
from tests.kernels_ref.drafting.naive import Node
from tests.kernels_ref.drafting.pairs import (
    ADAPTERS,
    DFLASH,
    EAGLE3,
    HIDDEN,
    KINDS,
    MAPPED,
    TAPPED,
    chain,
    draw,
    drawn_tokens,
    halved,
    said,
    same,
    stirred,
    target,
    tensors_of,
    written_pair,
)

TEXT = drawn_tokens(6)
SAID = slice(MASK + 1, None)


def read(folder: Path, kind: str) -> Model:
    """The pair in float64."""
    return drafted_model(written_pair(folder, kind), torch.float64).model


def half(kind: str) -> dict[str, torch.Tensor]:
    """The drafter's tensors as a file has them."""
    tensors = tensors_of(kind).items()
    return {n: t.half().double() if t.is_floating_point() else t for n, t in tensors}


def streams(tokens: IntArray, decoder: Decoder | None = None) -> torch.Tensor:
    """Of the target, layer by layer."""
    return naive.streams(decoder or halved(target()), tokens.tolist(), naive.causal)


def features(tokens: IntArray) -> torch.Tensor:
    """States behind the tapped layers, side by side."""
    found = streams(tokens)
    return torch.cat([found[layer - 1] for layer in TAPPED], dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_answers_as_if_alone(kind: str, tmp_path: Path) -> None:
    """Prompts and verifications are the target's; who has a drafter of its own tells features.

    Of every query, also those without logits.
    """
    model = read(tmp_path, kind)
    cache = model.new_cache(1, 12)
    (found,) = said(model, [chain("prefill", 0, TEXT[:4], asked=3)], cache)
    (verified,) = said(model, [chain("verify", 4, TEXT[4:])], cache)
    expected = naive.logits(halved(target()), streams(TEXT)[-1])
    same(found.logits[:, SAID], expected[3:4, SAID])
    same(verified.logits[:, SAID], expected[4:, SAID])
    if kind.endswith("adapters"):
        assert found.features is None
        return
    for answer, places in ((found, slice(0, 4)), (verified, slice(4, 6))):
        assert answer.features is not None
        same(answer.features, features(TEXT)[places])


def test_eagle3_drafts_behind_its_target(tmp_path: Path) -> None:
    """The prompt's features go from one to the other as they come."""
    model = read(tmp_path, "eagle3")
    cache = model.new_cache(1, 12)
    (told,) = said(model, [chain("prefill", 0, TEXT[:-1], asked=4)], cache)
    (found,) = said(model, [chain("draft", 0, TEXT[1:], asked=4, features=told.features)], cache)
    own = filled(stirred(random_eagle3(EAGLE3, draw())), without_map(half("eagle3")))
    taken = zip(TEXT[1:].tolist(), features(TEXT[:-1]), strict=True)
    path = [Node(token, place, own.fuse @ x) for place, (token, x) in enumerate(taken)]
    embedding = halved(target()).weights.embedding
    state = naive.eagle3_state(own, EAGLE3, embedding, path)
    same(found.logits[0, MAPPED], own.lm_head @ naive.normed(state, own.final_norm))


def without_map(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights alone."""
    return {name: tensor for name, tensor in tensors.items() if name != "draft_to_target"}


def test_dflash_drafts_behind_its_target(tmp_path: Path) -> None:
    """The prompt's features, then a token and masks, by the target's embedding and LM head."""
    model = read(tmp_path, "dflash")
    cache = model.new_cache(1, 12)
    (told,) = said(model, [chain("prefill", 0, TEXT[:-1], asked=4)], cache)
    block = np.array([TEXT[-1], MASK, MASK])
    query = Query("draft", 5, block, np.full(3, 8), 3, asked=1, features=told.features)
    (found,) = said(model, [query], cache)
    own = filled(stirred(random_dflash(DFLASH, draw())), half("dflash"))
    shared = halved(target()).weights
    embedded = shared.embedding[torch.from_numpy(block)]
    states = naive.dflash_states(own, DFLASH, features(TEXT[:-1]), embedded)
    same(found.logits[:, SAID], (states[1:] @ shared.lm_head.T)[:, SAID])


@pytest.mark.parametrize("kind", ["noise-adapters", "mask-adapters"])
def test_adapters_draft_as_the_target_itself(kind: str, tmp_path: Path) -> None:
    """On for the queries that say so, off for the token before them and for all verification."""
    model = read(tmp_path, kind)
    cache = model.new_cache(1, 12)
    said(model, [chain("prefill", 0, TEXT[:3])], cache)
    on = np.array([False, True, True])
    (drafted,) = said(model, [chain("draft", 3, TEXT[3:], adapted=on)], cache)
    both = with_adapters(halved(target()), ADAPTERS, half(kind))
    gates = [False] * 3 + on.tolist()
    expected = naive.streams(both, TEXT.tolist(), naive.causal, gates)[-1]
    same(drafted.logits[:, SAID], naive.logits(both, expected)[3:, SAID])
    (verified,) = said(model, [chain("verify", 3, TEXT[3:])], cache)
    same(verified.logits[:, SAID], naive.logits(both, streams(TEXT)[-1])[3:, SAID])


@pytest.mark.parametrize("kind", ["eagle3", "dflash"])
def test_both_caches_follow_the_rows(kind: str, tmp_path: Path) -> None:
    """Rows that stay are found again in the target's and the drafter's cache."""
    model = read(tmp_path, kind)
    texts = [drawn_tokens(4, row) for row in range(3)]
    cache = model.new_cache(3, 12)
    told = said(model, [chain("prefill", 0, text) for text in texts], cache)
    asked = [
        draft(kind, 0, text, answer.features) for text, answer in zip(texts, told, strict=True)
    ]
    first = said(model, asked, cache)
    kept = cache.keep([2, 1])
    assert isinstance(kept, PairCache)
    for row, text in ((0, texts[2]), (1, texts[1])):
        alone = model.new_cache(1, 12)
        (answer,) = said(model, [chain("prefill", 0, text)], alone)
        (expected,) = said(model, [draft(kind, 0, text, answer.features)], alone)
        same(first[2 - row].logits[:, MAPPED], expected.logits[:, MAPPED])
        (verified,) = said(model, [chain("verify", 4, np.array([7]))], alone)
        rows: list[Query | None] = [None, None]
        rows[row] = chain("verify", 4, np.array([7]))
        (found,) = said(model, rows, kept)
        same(found.logits[:, SAID], verified.logits[:, SAID])
        further = draft(kind, 4, np.array([7]), verified.features)
        rows[row] = draft(kind, 4, np.array([7]), verified.features)
        (expected,) = said(model, [further], alone)
        (found,) = said(model, rows, kept)
        same(found.logits[:, MAPPED], expected.logits[:, MAPPED])


def draft(kind: str, left: int, tokens: IntArray, given: torch.Tensor | None) -> Query:
    """A drafter's query about places that have these features: in them, or behind them."""
    if kind == "eagle3":
        return chain("draft", left, tokens, features=given)
    right = left + len(tokens)
    block = np.array([9, MASK, MASK])
    return Query("draft", right, block, np.full(3, right + 3), 3, asked=1, features=given)


def test_a_cache_of_one_is_no_cache_of_a_pair(tmp_path: Path) -> None:
    """What is wrong is told, not tried."""
    model = read(tmp_path, "dflash")
    cache = model.new_cache(1, 12)
    assert isinstance(cache, PairCache)
    with pytest.raises(TypeError, match="a PairCache, got DenseCache"):
        model.forward([chain("prefill", 0, TEXT)], cache.target)


def test_features_are_as_wide_as_the_layers_tapped(tmp_path: Path) -> None:
    """Two layers, two states side by side; nothing else fits the fusion."""
    assert (
        features(TEXT).shape[1]
        == 2 * HIDDEN
        == tensors_in(random_dflash(DFLASH, draw()))["fuse"].shape[1]
    )
    model = read(tmp_path, "eagle3")
    narrow = torch.zeros(6, HIDDEN + 1, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"x has {HIDDEN + 1} inputs, the weight {2 * HIDDEN}"):
        model.forward([chain("draft", 0, TEXT, features=narrow)], model.new_cache(1, 12))
