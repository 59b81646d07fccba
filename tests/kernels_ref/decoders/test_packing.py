"""Decoding a batch is decoding each of its rows: tokens, records, any order, any neighbours."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoders import policy_names
from kernels_ref.decoding.query import Model
from tests.kernels_ref.decoders.drawn import requests, settings_of
from tests.kernels_ref.decoders.hashed import HashedModel
from tests.kernels_ref.decoders.models import (
    Request,
    decoded,
    outcome,
    random_model,
    requests_of,
)
from tests.kernels_ref.decoders.test_exactness import CASES, SETTINGS

PACKED = [case for case in CASES if case[2].get("batching") != "synchronous"]


def alone(
    model: Model, name: str, case: Mapping[str, Any], batch: list[Request]
) -> list[dict[str, Any]]:
    """The outcome of each request in a batch of its own."""
    size = model.facts.block_tokens
    runs = [
        decoded(model, name, case, [request], size, [number])
        for number, request in enumerate(batch)
    ]
    return [outcome(run.sequences[0]) for run in runs]


@pytest.mark.parametrize(("layers", "name", "case"), PACKED)
def test_a_packed_row_is_the_row_alone(layers: str, name: str, case: dict[str, Any]) -> None:
    """FlowBlock 4.2: token-exact with independent execution, and forward by forward the same."""
    model = random_model(layers)
    batch = requests_of([(3, 13), (8, 8), (13, 11), (1, 1)], seed=3)
    together = decoded(model, name, case, batch)
    assert together.outcomes == alone(model, name, case, batch)


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=10)
@given(data=st.data(), batch=requests(), seed=st.integers(0, 2**31))
def test_a_packed_row_is_the_row_alone_at_any_setting(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """The same for every parameter, whatever prompts are in the batch."""
    model, case = HashedModel(seed), data.draw(settings_of(name))
    case.pop("batching", None)
    together = decoded(model, name, case, batch, 4)
    assert together.outcomes == alone(model, name, case, batch)


@pytest.mark.parametrize("name", policy_names("blocks"))
def test_32_rows_in_any_order(name: str) -> None:
    """A row's outcome does not depend on its place in the batch, nor on how large that is."""
    model = HashedModel(seed=5)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, (11, 13), (32, 2)).tolist()
    batch = requests_of(lengths, vocab=model.facts.vocab)
    case = SETTINGS.get(name, [{}])[0]
    expected = alone(model, name, case, batch)
    for size in (1, 5, 32):
        order = rng.permutation(32)[:size].tolist()
        run = decoded(model, name, case, [batch[number] for number in order], 4, order)
        assert run.outcomes == [expected[number] for number in order]


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=10)
@given(data=st.data(), batch=requests(most=6), seed=st.integers(0, 2**31))
def test_a_packed_batch_takes_as_many_forwards_as_its_slowest_row(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """Rows without a whole block of prompt wait for the others' prefill: one forward for all.

    So as many rows take part in decode forward i as have more than i of them.
    """
    case = data.draw(settings_of(name))
    case.pop("batching", None)
    run = decoded(HashedModel(seed), name, case, batch, 4)
    records = [sequence.record.forwards for sequence in run.sequences]
    prefills = [sum(forward.kind == "prefill" for forward in record) for record in records]
    decodes = [len(record) - some for record, some in zip(records, prefills, strict=True)]
    assert run.forwards.prefill == max(prefills)
    assert run.forwards.decode == max(decodes)
    assert run.forwards.rows == [sum(count > i for count in decodes) for i in range(max(decodes))]
