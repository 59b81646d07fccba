"""Greedy decoding: every decoder says what autoregression says, whatever drafts for it."""

from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoders import policy_names
from kernels_ref.decoding.query import Model, ModelFacts
from tests.kernels_ref.decoders.models import Request, requests_of
from tests.kernels_ref.speculation.continuing import SETTINGS, Settings, continued
from tests.kernels_ref.speculation.drawn import BATCHES, FACTS, settings_of
from tests.kernels_ref.speculation.small_models import VOCAB, model_for
from tests.kernels_ref.speculation.table_model import DRAFTERS, MASK, TableModel

DRAFTING = [name for name in policy_names("iterations") if name != "ar"]
LENGTHS = [(1, 9), (7, 20), (3, 1)]
"""Of prompts and outputs; with tokens that end a text."""


def texts(
    model: Model, name: str, case: Settings, requests: list[Request], **about: Any
) -> list[list[int]]:
    """All tokens of each request."""
    run = continued(model, name, case, requests, **about)
    return [row.tokens.tolist() for row in run.rows]


def trees(block: int) -> list[dict[str, Any]]:
    """Trees that such a block may have: wide, and of one path."""
    sizes = [(4, 16), (1, block)]
    return [{"block": block, "top_k": top_k, "tree_size": size} for top_k, size in sizes]


@pytest.mark.parametrize("name", DRAFTING)
@pytest.mark.parametrize("block", [2, 5, 16])
def test_a_transformer_says_the_same_with_any_decoder(name: str, block: int) -> None:
    """In float64, prompts of several lengths together and alone, to the end token or the limit."""
    model, batch = model_for(name), requests_of(LENGTHS, seed=block, vocab=VOCAB)
    expected = texts(model, "ar", {}, batch)
    cases = trees(block) if name.endswith("tree") else [{"block": block}]
    for case in cases:
        assert texts(model, name, case, batch) == expected
    for request, text in zip(batch, expected, strict=True):
        assert texts(model, name, cases[0], [request]) == [text]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("name", DRAFTING)
def test_all_drafters_are_verified_away(name: str, drafter: str) -> None:
    """Every block from 2 to 16, with a drafter that knows nothing, all, or allows for one token."""
    model = TableModel(FACTS, DRAFTERS[drafter])
    batch = requests_of([(2, 8), (5, 12)], seed=2, vocab=FACTS.vocab)
    expected = texts(model, "ar", {}, batch)
    for block in range(2, 17):
        case = {"block": block}
        if name.endswith("tree"):
            case |= {"top_k": 1 + block % 4, "tree_size": 1 + block * 2 % 13}
        assert texts(model, name, case, batch) == expected


@pytest.mark.parametrize("name", DRAFTING)
def test_the_target_as_its_own_drafter_is_always_accepted(name: str) -> None:
    """Drafts at the right places, from the right features: then not one is refused."""
    model = TableModel(ModelFacts(MASK, (), 4, 128, 8), DRAFTERS["oracle"])
    for case in SETTINGS[name]:
        chains = {**case, "top_k": 1} if name.endswith("tree") else case
        (row,) = continued(model, name, chains, [Request((0, 2), 40)]).rows
        iterations = row.record.iterations
        assert all(each.accepted == each.drafted == each.nodes > 0 for each in iterations)
        assert not any(each.cut for each in iterations[:-1])


@pytest.mark.parametrize("name", policy_names("iterations"))
@settings(max_examples=10)
@given(data=st.data(), batch=BATCHES, seed=st.integers(0, 2**31))
def test_a_row_does_not_depend_on_its_batch(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """At any setting and temperature: tokens and records are those of the request alone."""
    drafter = DRAFTERS[data.draw(st.sampled_from(sorted(DRAFTERS)))]
    model, case = TableModel(FACTS, drafter, seed), data.draw(settings_of(name))
    together = continued(model, name, case, batch, seed=seed)
    alone = [
        continued(model, name, case, [request], numbers=[number], seed=seed).outcomes[0]
        for number, request in enumerate(batch)
    ]
    assert together.outcomes == alone


@pytest.mark.parametrize("name", policy_names("iterations"))
def test_a_transformer_s_row_does_not_depend_on_its_batch(name: str) -> None:
    """The same at temperature 1 with float64 numbers, whose logits round differently in a batch."""
    model, batch = model_for(name), requests_of(LENGTHS, seed=9, vocab=VOCAB)
    case = {**SETTINGS[name][-1], "temperature": 1.0, "top_p": 0.9}
    together = continued(model, name, case, batch).outcomes
    for number, request in enumerate(batch):
        alone = continued(model, name, case, [request], numbers=[number]).outcomes
        assert alone == [together[number]]
