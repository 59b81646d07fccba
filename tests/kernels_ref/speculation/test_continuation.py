"""One request from left to right: where it ends, and what is refused of it and of parameters."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kernels_ref.decoders import policy_names, speculator
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.query import ModelFacts
from kernels_ref.decoding.uniform_noise import uniform_noise
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.continuing import SETTINGS, continued
from tests.kernels_ref.speculation.table_model import DRAFTERS, TINY, TableModel

FACTS = ModelFacts(mask_token=0, end_tokens=(1, 9), block_tokens=8, context_tokens=16, vocab=10)
GOOD: dict[str, Any] = {"prompt": [3] * 7, "output_tokens": 9}
NAMES = policy_names("iterations")
DRAFTING = [name for name in NAMES if name != "ar"]


@given(
    parts=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), max_size=5),
    output_tokens=st.integers(1, 9),
)
def test_text_ends_with_the_first_end_token_or_the_limit(
    parts: list[list[int]], output_tokens: int
) -> None:
    """Whatever comes in whatever pieces: what is kept is cut, and the end token is no output."""
    row = Continuation([1, 9, 3], facts=FACTS, output_tokens=output_tokens)
    said: list[int] = []
    kept: list[int] = []
    for part in parts:
        if row.is_over:
            break
        said += part
        kept.append(row.extend(part))
    ends = [place for place, token in enumerate(said) if token in FACTS.end_tokens]
    expected = said[: min([output_tokens, *(place + 1 for place in ends)])]
    assert row.tokens[3:].tolist() == expected
    assert sum(kept) == len(expected)
    ended = bool(expected) and expected[-1] in FACTS.end_tokens
    assert row.output().tolist() == (expected[:-1] if ended else expected)
    assert row.is_over == (ended or len(expected) == output_tokens)
    if row.is_over:
        assert row.finish_reason == ("end" if ended else "limit")
    assert row.stored_tokens == 2 + len(expected)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"prompt": []}, "a prompt has at least one token, got none"),
        ({"prompt": [3, 10]}, "prompt tokens are 0 to 9, got 10"),
        ({"prompt": [-1]}, "prompt tokens are 0 to 9, got -1"),
        ({"output_tokens": 0}, "output_tokens is at least 1, got 0"),
        ({"output_tokens": 10}, "fit the context of 16 tokens; 7 and 10 take 17"),
        ({"output_tokens": 10**12}, "fit the context of 16 tokens"),
    ],
)
def test_what_cannot_be_decoded_is_refused(change: dict[str, Any], rule: str) -> None:
    """The error says the rule and the value."""
    asked = GOOD | change
    with pytest.raises(ValueError, match=rule):
        Continuation(asked.pop("prompt"), facts=FACTS, **asked)


def test_drafts_may_lie_beyond_the_context() -> None:
    """The last place of the context may be used, and drafts behind it are dropped anyway."""
    row = Continuation(**GOOD, facts=FACTS, extra_tokens=5)
    assert row.capacity_tokens == 21


def test_noise_is_uniform_over_all_but_the_mask() -> None:
    """Frequencies of many tokens lie within five standard errors of one ninth."""
    facts = ModelFacts(4, (), 8, 16, 10)
    counts = np.bincount(uniform_noise(np.random.default_rng(0), facts, 9000), minlength=10)
    assert counts[4] == 0
    assert (np.abs(np.delete(counts, 4) - 1000) < 5 * np.sqrt(9000 / 9 * 8 / 9)).all()


def test_seed_and_request_fix_all_draws() -> None:
    """Equal ones draw the same, another of either draws otherwise."""

    def draws(seed: int, request: int) -> list[int]:
        row = Continuation([3], facts=FACTS, output_tokens=1, request=request, seed=seed)
        drawn = [row.draw(np.full(9, 1 / 9)) for _ in range(20)]
        return [*drawn, *row.noise(20).tolist()]

    assert draws(1, 2) == draws(1, 2)
    assert len({tuple(draws(*key)) for key in ((1, 2), (2, 1), (1, 3))}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_a_first_token_may_be_all(name: str) -> None:
    """A limit of one token, or an end token at once: no iteration, beside rows that go on."""
    model = TableModel(TINY, DRAFTERS["even"])
    case = {**SETTINGS[name][0], "temperature": 1.0}
    batch = [Request((2,), 1)] + [Request((2, 0), 6)] * 12
    rows = continued(model, name, case, batch).rows
    assert [rows[0].finish_reason, len(rows[0].record.iterations)] == ["limit", 0]
    at_once = [row for row in rows if len(row.output()) == 0]
    assert at_once
    assert all(row.finish_reason == "end" and not row.record.iterations for row in at_once)
    assert any(row.record.iterations for row in rows)
    alone = continued(model, name, case, batch[:1])
    assert (alone.forwards.prefill, alone.forwards.decode) == (1, 0)


def checked(name: str, values: dict[str, Any]) -> Any:
    """Parameters of a policy as a file would give them."""
    return TypeAdapter(speculator(name).Parameters).validate_python(values)


FIELDS = {
    "temperature": [-0.1, float("nan"), float("inf"), "1", True],
    "top_p": [0.0, -0.5, 1.01, float("nan"), float("inf"), "1", True],
    "sample_top_k": [0, -1, 1.5, True, "2"],
    "block": [1, 0, -1, 2.5, True, "2", 4097],
    "top_k": [0, -1, 1.5, True, "2", 4097],
    "tree_size": [0, -1, 1.5, True, "2", 4097],
}
BAD = [
    (name, field, value)
    for name in NAMES
    for field, values in FIELDS.items()
    for value in values
    if field in speculator(name).Parameters.__dataclass_fields__ and (name, value) != ("ar", 1)
]


@pytest.mark.parametrize(("name", "field", "value"), BAD)
def test_bad_parameters_are_named(name: str, field: str, value: object) -> None:
    """What is out of range or of another type is an error that names the field."""
    with pytest.raises(ValidationError, match=field):
        checked(name, {field: value})


@pytest.mark.parametrize("name", DRAFTING)
def test_bounds_are_good_values(name: str) -> None:
    """The least and the largest of each field are taken, and no block means the checkpoint's."""
    fields = {"temperature": 0, "top_p": 1e-9, "sample_top_k": 1, "block": 2}
    assert checked(name, fields).block == 2
    assert checked(name, {}).block is None
    most = 8 if name == "eagle3-tree" else 4096
    assert checked(name, {"block": most, "top_p": 1.0}).block_tokens(FACTS) == most
    assert checked(name, {}).block_tokens(FACTS) == 8


def test_autoregression_has_one_block() -> None:
    """Its block is 1, and is nothing to choose."""
    assert checked("ar", {}).block == checked("ar", {"block": 1}).block == 1
    for block in (2, None, True, "1"):
        with pytest.raises(ValidationError, match="block"):
            checked("ar", {"block": block})


@pytest.mark.parametrize("name", DRAFTING)
def test_what_the_model_rules_out_is_refused_before_anything_is_decoded(name: str) -> None:
    """A checkpoint's block that leaves no draft, and more candidates than tokens."""
    decoder = speculator(name)
    narrow = ModelFacts(0, (1,), 1, 16, 10)
    row = Continuation([3], facts=narrow, output_tokens=4)
    with pytest.raises(ValueError, match="block is at least 2 to draft, got 1"):
        decoder.decode([row], decoder.Parameters())
    counts = ["sample_top_k", *(["top_k"] if name.endswith("tree") else [])]
    for field in counts:
        small = {"top_k": 3} if name.endswith("tree") else {}
        rule = f"{field} is at most the vocabulary, 10 tokens, got 11"
        with pytest.raises(ValueError, match=rule):
            decoder.decode([row], decoder.Parameters(block=2, **{**small, field: 11}))


@pytest.mark.parametrize("name", NAMES)
def test_policies_say_what_they_need(name: str) -> None:
    """Every module has the interface, and is refused nothing by its own name."""
    module = speculator(name)
    assert module.RECORDS == "iterations"
    assert module.PROMPT == "causal"
    assert (2 if name.startswith("uno") else 1) == module.GUARANTEED_TOKENS
    assert module.__doc__
    assert module.Parameters.__dataclass_params__.frozen
    assert checked(name, {"policy": name}).policy == name
    for values in ({"policy": "another"}, {"temprature": 0.5}):
        with pytest.raises(ValidationError):
            checked(name, values)


def test_each_policy_has_its_drafter() -> None:
    """Kinds of drafters by policy."""
    assert {name: speculator(name).DRAFTER for name in NAMES} == {
        "ar": None,
        "dflash": "dflash",
        "eagle3-linear": "eagle3",
        "eagle3-tree": "eagle3",
        "self-speculation": "mask-adapters",
        "uno-linear": "noise-adapters",
        "uno-tree": "noise-adapters",
    }
