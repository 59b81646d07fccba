"""The tokens of one request: how they lie in blocks, and what is refused."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kernels_ref.decoders import policy, policy_names
from kernels_ref.decoding.query import ModelFacts
from kernels_ref.decoding.sequence import Sequence

FACTS = ModelFacts(mask_token=0, end_tokens=(1,), block_tokens=8, context_tokens=16, vocab=10)
GOOD: dict[str, Any] = {"prompt": [3] * 7, "block_tokens": 8, "output_tokens": 9}


@given(
    prompt=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    block=st.integers(1, 12),
    output=st.integers(1, 40),
)
def test_blocks_are_absolute_intervals(prompt: list[int], block: int, output: int) -> None:
    """A prompt of p tokens and g more lie in ceil((p + g) / b) - floor(p / b) decoded blocks."""
    facts = ModelFacts(0, (1,), 8, 128, 10)
    sequence = Sequence(prompt, facts=facts, block_tokens=block, output_tokens=output)
    assert sequence.n_blocks == -(-(len(prompt) + output) // block) - len(prompt) // block
    assert sequence.first_start == len(prompt) - len(prompt) % block
    masked = np.concatenate([sequence.is_masked(number) for number in range(sequence.n_blocks)])
    assert np.flatnonzero(masked).tolist() == list(range(len(prompt) % block, len(masked)))
    assert all(sequence.is_masked(number).any() for number in range(sequence.n_blocks))


@given(prompt=st.lists(st.integers(0, 9), min_size=1, max_size=40), output=st.integers(1, 40))
def test_blocks_from_the_prompt_are_all_answer(prompt: list[int], output: int) -> None:
    """Counted from the prompt's end there are ceil(g / b), and no prompt in them."""
    facts = ModelFacts(0, (1,), 8, 128, 10)
    sequence = Sequence(prompt, facts=facts, block_tokens=8, output_tokens=output, from_prompt=True)
    assert (sequence.first_start, sequence.n_blocks) == (len(prompt), -(-output // 8))
    assert all(sequence.is_masked(number).all() for number in range(sequence.n_blocks))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"prompt": []}, "a prompt has at least one token, got none"),
        ({"prompt": [3, 10]}, "prompt tokens are 0 to 9, got 10"),
        ({"prompt": [-1]}, "prompt tokens are 0 to 9, got -1"),
        ({"block_tokens": 0}, "block is at least 1, got 0"),
        ({"block_tokens": -8}, "block is at least 1, got -8"),
        ({"output_tokens": 0}, "output_tokens is at least 1, got 0"),
        ({"output_tokens": 10}, "7 and 10 in blocks of 8 take 24"),
        ({"from_prompt": True}, "7 and 9 in blocks of 8 take 23"),
        ({"block_tokens": 17}, "7 and 9 in blocks of 17 take 17"),
        ({"output_tokens": 10**12}, "fit the context of 16 tokens"),
    ],
)
def test_what_cannot_be_decoded_is_refused(change: dict[str, Any], rule: str) -> None:
    """The error says the rule and the value; nothing is allocated before."""
    asked = GOOD | change
    with pytest.raises(ValueError, match=rule):
        Sequence(asked.pop("prompt"), facts=FACTS, **asked)


def test_the_longest_sequence_fits() -> None:
    """The context's very last place may be used, counted either way."""
    prompt = GOOD["prompt"]
    assert len(Sequence(prompt, facts=FACTS, block_tokens=8, output_tokens=9).tokens) == 16
    aligned = Sequence(prompt[:4], facts=FACTS, block_tokens=4, output_tokens=12, from_prompt=True)
    assert len(aligned.tokens) == 16


THRESHOLDS = [
    (name, field)
    for name in policy_names("blocks")
    for field in policy(name).Parameters.__dataclass_fields__
    if field in {"tau_mask", "tau_edit", "theta_spawn", "tau_add", "tau_act", "tau_semi"}
]
COUNTS = [
    (name, field)
    for name in policy_names("blocks")
    for field in policy(name).Parameters.__dataclass_fields__
    if field in {"window", "block", "post_edit_steps", "buffer", "steps"}
]


def checked(name: str, values: dict[str, Any]) -> Any:
    """Parameters of a policy as a file would give them."""
    return TypeAdapter(policy(name).Parameters).validate_python(values)


@pytest.mark.parametrize(("name", "field"), THRESHOLDS)
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), "high"])
def test_thresholds_are_shares(name: str, field: str, value: object) -> None:
    """A threshold lies in [0, 1], bounds included; the error names the field."""
    with pytest.raises(ValidationError, match=field):
        checked(name, {field: value})
    assert [getattr(checked(name, {field: bound}), field) for bound in (0, 1)] == [0.0, 1.0]


@pytest.mark.parametrize(("name", "field"), COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_counts_are_whole_numbers_from_one(name: str, field: str, value: object) -> None:
    """A window, block or number of steps of 0 means nothing; the error names the field."""
    with pytest.raises(ValidationError, match=field):
        checked(name, {field: value})
    assert getattr(checked(name, {field: 1}), field) == 1


@pytest.mark.parametrize("name", policy_names())
def test_parameters_are_of_their_own_policy(name: str) -> None:
    """Another policy's name or an unknown field is refused; the defaults are good."""
    assert checked(name, {"policy": name}).policy == name
    for values in ({"policy": "another"}, {"temprature": 0.5}):
        with pytest.raises(ValidationError):
            checked(name, values)
