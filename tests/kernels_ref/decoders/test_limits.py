"""Where a sequence begins and ends: what the prompt holds, the end token, the limit."""

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernels_ref.decoders import policy_names
from kernels_ref.decoding.query import IntArray, Model
from tests.kernels_ref.decoders.drawn import requests, settings_of
from tests.kernels_ref.decoders.hashed import FACTS, GRID, HashedModel, mixed
from tests.kernels_ref.decoders.models import (
    Request,
    decoded,
    outcome,
    random_model,
    requests_of,
)
from tests.kernels_ref.decoders.scripted import ScriptedModel

SERIAL = ("single-block", "joint-threshold", "gwd", "dmax", "block-entropy")
"""Policies that are over with the block that holds an end token; others decode what is live."""


def answer(tokens: list[int], request: Request, ends: tuple[int, ...]) -> list[int]:
    """What follows the prompt, up to the limit, the first end token and what is behind it not."""
    out = []
    for token in tokens[len(request.prompt) :][: request.output_tokens]:
        if token in ends:
            break
        out.append(token)
    return out


def check_output(name: str, model: Model, request: Request, case: Mapping[str, Any]) -> str:
    """Output, committed tokens and the reason to finish, against the tokens alone."""
    block = model.facts.block_tokens
    (sequence,) = decoded(model, name, case, [request], block).sequences
    tokens, ends = sequence.tokens.tolist(), model.facts.end_tokens
    expected = answer(tokens, request, ends)
    assert model.facts.mask_token not in expected
    assert tuple(tokens[: len(request.prompt)]) == request.prompt
    assert sequence.output().tolist() == expected
    assert sequence.record.committed_tokens == len(expected)
    short = len(expected) < request.output_tokens
    assert sequence.finish_reason == ("end" if short else "limit")
    for number in range(len(sequence.record.forwards)):
        retired = sum(0 <= row.retired <= number for row in sequence.record.blocks)
        before = min(sequence.start(retired), len(request.prompt) + request.output_tokens)
        done = answer(tokens[:before], request, ends)
        so_far = sequence.record.forwards[: number + 1]
        assert sum(row.committed_tokens for row in so_far) == len(done)
    return sequence.finish_reason


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=15)
@given(data=st.data(), batch=requests(most=1), seed=st.integers(0, 2**31))
def test_output_is_what_became_final(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """After every forward the committed tokens are the output tokens of the retired blocks."""
    check_output(name, HashedModel(seed), batch[0], data.draw(settings_of(name)))


@pytest.mark.parametrize("name", policy_names("blocks"))
def test_output_ends_both_ways_with_a_transformer(name: str) -> None:
    """The same with float64 numbers; requests end by a token and by the limit."""
    case = {"steps": 3} if name == "block-entropy" else {}
    lengths = [(9, 20), (3, 2), (7, 14)]
    reasons = [
        check_output(name, random_model(), request, case)
        for request in requests_of(lengths, seed=1)
    ]
    assert set(reasons) == {"end", "limit"}


@pytest.mark.parametrize("name", SERIAL)
@settings(max_examples=15)
@given(data=st.data(), batch=requests(most=1), seed=st.integers(0, 2**31))
def test_decoding_is_over_with_the_block_that_holds_the_end(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """The last retired block holds the first end token of the answer, or is the last of all."""
    case = data.draw(settings_of(name))
    case.pop("batching", None)
    (sequence,) = decoded(HashedModel(seed), name, case, batch, 4).sequences
    retired = [row.retired >= 0 for row in sequence.record.blocks]
    last = sum(retired) - 1
    assert retired == [number <= last for number in range(len(retired))]
    assert sequence.record.blocks[last].retired == len(sequence.record.forwards) - 1
    said = [
        place
        for place in range(len(batch[0].prompt), sequence.start(last + 1))
        if sequence.tokens[place] in FACTS.end_tokens
    ]
    if said:
        assert said[0] >= sequence.start(last)
    else:
        assert last == sequence.n_blocks - 1


def place_alone(place: int, _seen: IntArray, turn: int) -> tuple[int, float]:
    """A script that looks at no token, and changes its mind for five turns."""
    (state,) = mixed(np.array([place * 8 + min(turn, 5)], np.uint64)).tolist()
    return 1 + state % (FACTS.vocab - 1), GRID[state // 64 % len(GRID)]


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=15)
@given(
    data=st.data(),
    prompt=st.lists(st.sampled_from([FACTS.mask_token, *FACTS.end_tokens, 7]), min_size=1).map(
        tuple
    ),
    output_tokens=st.integers(1, 20),
)
def test_masks_and_ends_of_a_prompt_are_tokens_like_others(
    name: str, data: st.DataObject, prompt: tuple[int, ...], output_tokens: int
) -> None:
    """Told the same, a decoder does the same whatever tokens the prompt is made of."""
    assume(len(prompt) < 12)
    model = ScriptedModel(place_alone, FACTS)
    case = data.draw(settings_of(name))
    told = []
    for given_prompt in (prompt, (7,) * len(prompt)):
        request = Request(given_prompt, output_tokens)
        (sequence,) = decoded(model, name, case, [request], 4).sequences
        assert sequence.tokens[: len(prompt)].tolist() == list(given_prompt)
        did = outcome(sequence)
        told.append((did["tokens"][len(prompt) :], did["forwards"], did["blocks"]))
    assert told[0] == told[1]
