"""DFlash's drafter as decoders ask it, against every block recomputed from nothing."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.decoding.query import IntArray, Prediction, Query
from kernels_ref.drafting.dflash import DFlash, DFlashDrafter, DFlashWeights, random_dflash
from kernels_ref.task.vocabulary import MASK
from tests.kernels_ref.drafting import naive
from tests.kernels_ref.drafting.pairs import (
    DFLASH,
    TAPPED,
    draw,
    drawn_features,
    said,
    same,
    stirred,
    target,
)

CAPACITY = 24


def weights() -> DFlashWeights:
    """Random ones."""
    return stirred(random_dflash(DFLASH, draw()))


def drafter() -> DFlashDrafter:
    """A drafter with them beside a random target."""
    return DFlashDrafter(DFlash(DFLASH, weights(), target()), MASK)


def block(
    left: int, tokens: IntArray, features: torch.Tensor | None, padded: int | None = None
) -> Query:
    """All of a block sees all of itself, and predicts all places but the first."""
    count = len(tokens)
    horizon = np.full(count, left + count)
    size = count if padded is None else padded
    return Query("draft", left, tokens, horizon, size, asked=1, features=features)


def opened(token: int, count: int) -> IntArray:
    """A block of *count*: a token, then masks."""
    return np.array([token] + [MASK] * (count - 1))


def answered(answer: Prediction, features: torch.Tensor, tokens: IntArray) -> None:
    """What a block was told behind all *features* so far."""
    shared = target().weights
    embedded = shared.embedding[torch.from_numpy(tokens)]
    states = naive.dflash_states(weights(), DFLASH, features, embedded)
    expected = states[1:] @ shared.lm_head.T
    assert answer.left == len(features) + 1
    same(answer.logits[:, MASK + 1 :], expected[:, MASK + 1 :])
    assert (answer.logits[:, MASK] == -torch.inf).all()
    assert answer.features is None
    assert answer.token.tolist() == (expected[:, MASK + 1 :].argmax(dim=1) + MASK + 1).tolist()


def test_a_block_is_recomputed() -> None:
    """The features of all places before it as keys and values, and all of itself.

    Rows of different length and block, one that waits, slots behind the blocks.
    """
    model = drafter()
    places, tokens = {0: 4, 2: 9}, {0: opened(17, 5), 2: opened(30, 3)}
    features = {row: drawn_features(n, row) for row, n in places.items()}
    asked = [
        block(places[row], tokens[row], features[row], padded=7) if row in places else None
        for row in range(3)
    ]
    answers = said(model, asked, model.new_cache(3, CAPACITY))
    for row, answer in zip(places, answers, strict=True):
        answered(answer, features[row], tokens[row])


def test_features_may_come_in_pieces() -> None:
    """Taken in over several drafts, rows by different steps: as if they had come at once.

    Blocks write where features come to lie in the next query; nothing of them is left.
    """
    model = drafter()
    cache = model.new_cache(2, CAPACITY)
    features = [drawn_features(CAPACITY, row) for row in range(2)]
    places = [0, 0]
    for number, new in enumerate([(5, 2), (1, 4), (3, 1)]):
        asked: list[Query | None] = []
        for row in range(2):
            left, places[row] = places[row], places[row] + new[row]
            given = features[row][left : places[row]]
            asked.append(block(places[row], opened(10 * number + row + 3, 6), given))
        for row, answer in enumerate(said(model, asked, cache)):
            tokens = opened(10 * number + row + 3, 6)
            answered(answer, features[row][: places[row]], tokens)


def test_a_row_may_bring_no_features() -> None:
    """Beside one that does, and in a forward where none does: what is cached is seen again."""
    model = drafter()
    cache = model.new_cache(2, CAPACITY)
    features = [drawn_features(6, row) for row in range(2)]
    first = said(model, [block(6, opened(20, 4), features[0]), None], cache)
    answered(first[0], features[0], opened(20, 4))
    mixed = [block(6, opened(21, 4), None), block(6, opened(22, 4), features[1])]
    for row, answer in enumerate(said(model, [*mixed], cache)):
        answered(answer, features[row], opened(21 + row, 4))
    again = [block(6, opened(23, 5), None), block(6, opened(24, 5), None)]
    for row, answer in enumerate(said(model, [*again], cache)):
        answered(answer, features[row], opened(23 + row, 5))


def test_a_block_behind_nothing() -> None:
    """The first place of all has no features before it."""
    model = drafter()
    (answer,) = said(model, [block(0, opened(9, 3), None)], model.new_cache(1, CAPACITY))
    answered(answer, drawn_features(0), opened(9, 3))


def test_keys_lie_at_their_positions() -> None:
    """A feature at another place gives another answer: positions are the text's, not counted."""
    model, features = drafter(), drawn_features(6)
    cache = model.new_cache(1, CAPACITY)
    (found,) = said(model, [block(6, opened(9, 4), features)], cache)
    turned = features.flip(0)
    (other,) = said(model, [block(6, opened(9, 4), turned)], model.new_cache(1, CAPACITY))
    answered(other, turned, opened(9, 4))
    assert (found.logits[:, 1:] - other.logits[:, 1:]).abs().max() > 1e-3
    # What the cache holds of a place is what the equations say, layer by layer.
    kv = cache.kv
    own = weights()
    fused = [naive.normed(own.fuse @ feature, own.context_norm) for feature in features]
    for index, layer in enumerate(own.layers):
        for place, x in enumerate(fused):
            qkv = layer.qkv.weight
            heads = naive.heads_of(x, qkv, layer, DFLASH.layer, place, DFLASH.rotary_theta)
            same(kv.keys[index][0, place], heads.key)
            same(kv.values[index][0, place], heads.value)


def test_every_place_of_a_block_sees_every_other() -> None:
    """A change of the last token is told to the first prediction, and the other way round."""
    model, features = drafter(), drawn_features(5)
    plain = opened(9, 4)
    answers = []
    for place in (None, 0, 3):
        tokens = plain.copy()
        if place is not None:
            tokens[place] = 50
        (answer,) = said(model, [block(5, tokens, features)], model.new_cache(1, CAPACITY))
        answered(answer, features, tokens)
        answers.append(answer.logits[:, 1:])
    for other in answers[1:]:
        assert ((answers[0] - other).abs().amax(dim=1) > 1e-4).all()


def test_rows_are_what_they_are_alone() -> None:
    """What stands in other rows and slots is not seen."""
    model = drafter()
    features = [drawn_features(n, n) for n in (2, 7)]
    asked: list[Query | None] = [block(len(f), opened(40, 4), f, padded=8) for f in features]
    together = said(model, asked, model.new_cache(2, CAPACITY))
    for answer, given in zip(together, features, strict=True):
        query = block(len(given), opened(40, 4), given)
        (alone,) = said(model, [query], model.new_cache(1, len(given) + 4))
        same(answer.logits[:, 1:], alone.logits[:, 1:])


def test_rows_that_leave_a_batch() -> None:
    """The cache of a row that stays goes on as before."""
    model = drafter()
    features = [drawn_features(8, row) for row in range(2)]
    cache = model.new_cache(2, CAPACITY)
    said(model, [block(5, opened(9, 4), f[:5]) for f in features], cache)
    (answer,) = said(model, [block(8, opened(8, 4), features[1][5:])], cache.keep([1]))
    answered(answer, features[1], opened(8, 4))


def test_what_it_takes_from_its_target() -> None:
    """The layers that it taps, in order."""
    assert drafter().tapped == TAPPED
