"""Models whose answers are no numbers: nothing is drawn from them, and nothing is written."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from kernels_ref.capture.run import CaptureError, capture
from kernels_ref.capture.source import source_at
from kernels_ref.decoders import policy
from kernels_ref.decoding.query import Cache, Model, Prediction, Query
from kernels_ref.decoding.sampling import BrokenModelError, Sampling
from tests.kernels_ref.capture.plans import plan
from tests.kernels_ref.drafting.pairs import written_pair


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_no_token_is_drawn_from_what_is_no_number(temperature: float, wrong: float) -> None:
    """Greedy or not, one logit that is none is an error; a token that is ruled out is not."""
    law = Sampling(temperature=temperature).probabilities(torch.tensor([[-math.inf, 0.0]]))
    assert law.tolist() == [[0.0, 1.0]]
    for row in ([wrong, 0.0], [0.0, wrong], [-math.inf, -math.inf]):
        with pytest.raises(BrokenModelError, match="no numbers"):
            Sampling(temperature=temperature).probabilities(torch.tensor([[0.0, 1.0], row]))


@pytest.mark.parametrize("temperature", [5e-324, 1e-308, 9e-7])
def test_a_temperature_is_none_or_one_to_divide_by(temperature: float) -> None:
    """Too small a one is told at once, before logits over it overflow."""
    with pytest.raises((ValueError, ValidationError), match="temperature is 0 or at least 1e-06"):
        Sampling(temperature=temperature)


class Broken:
    """A model that says no numbers once it verifies."""

    def __init__(self, model: Model) -> None:
        """Say what *model* says until then."""
        self.facts = model.facts
        self._model = model

    def new_cache(self, rows: int, capacity_tokens: int) -> Cache:
        """That of the model."""
        return self._model.new_cache(rows, capacity_tokens)

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The answers of the model, spoilt where they verify."""
        said = self._model.forward(queries, cache)
        if all(query is None or query.kind != "verify" for query in queries):
            return said
        return [each and dataclasses.replace(each, logits=each.logits * math.nan) for each in said]


@pytest.mark.parametrize("name", ["ar", "uno-linear"])
def test_a_model_that_breaks_leaves_no_trace(name: str, tmp_path: Path) -> None:
    """Its capture ends with what is wrong and of which checkpoint, and no folder is left."""
    written = written_pair(tmp_path / "pair", "noise-adapters")
    path = written if policy(name).DRAFTER else written.with_name("target.yaml")
    source = source_at(path, family=None, dtype="float64", threads=1)
    broken = dataclasses.replace(source, model=Broken(source.model))
    asked = plan(name, problems=2, source=broken, parameters=policy(name).Parameters())
    with pytest.raises(CaptureError, match=f"{path.stem}: the model gives .* no numbers"):
        capture(asked, tmp_path / "trace")
    assert not (tmp_path / "trace").exists()
