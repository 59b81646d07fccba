"""Temperature, top-k and top-p hold for drafter and verifier alike."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.decoding.query import Cache, FloatArray, Prediction, Query
from kernels_ref.decoding.sampling import Sampling, log_probabilities
from kernels_ref.kernels.sampling import naive_sampling_probabilities, sampling_probabilities
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.continuing import CASES, continued
from tests.kernels_ref.speculation.drawn import FACTS
from tests.kernels_ref.speculation.exact_laws import next_law
from tests.kernels_ref.speculation.table_model import DRAFTERS, TableModel

LIMITED: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_p": 0.6},
    {"temperature": 2.0, "sample_top_k": 2},
    {"temperature": 0.5, "sample_top_k": 3, "top_p": 0.9},
]
ENDLESS = replace(FACTS, end_tokens=())
REQUESTS = [Request((0, 2), 24), Request((5,), 24), Request((7, 7, 4), 24)]


@dataclass
class Heard(TableModel):
    """A table model that keeps what it was asked and what it said, of one row."""

    heard: list[tuple[Query, Prediction]] = field(default_factory=list)

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The model's answer."""
        said = super().forward(queries, cache)
        for query, one in zip(queries, said, strict=True):
            if query is not None and one is not None:
                self.heard.append((query, one))
        return said


@pytest.mark.parametrize("limits", LIMITED)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_nothing_outside_the_nucleus_comes_out(
    name: str, case: dict[str, Any], limits: dict[str, Any]
) -> None:
    """Every token has a probability under the target's law as it is cooled and cut off."""
    model = TableModel(FACTS, DRAFTERS["even"])
    cut = 0
    for row in continued(model, name, {**case, **limits}, REQUESTS).rows:
        for place in range(row.prompt_tokens, len(row.tokens)):
            law = next_law(model, tuple(row.tokens[:place].tolist()), limits)
            assert law[row.tokens[place]] > 0
            cut += int((law == 0).sum()) - 1
    assert cut > 0


@pytest.mark.parametrize("limits", LIMITED)
def test_drafts_are_drawn_from_what_is_left_of_the_drafter_s_law(limits: dict[str, Any]) -> None:
    """No draft lies outside the nucleus of the logits that it was drawn from."""
    drafts = 0
    for request in REQUESTS:
        model = Heard(ENDLESS, DRAFTERS["stranger"])
        continued(model, "uno-linear", {"block": 5, **limits}, [request])
        pairs = zip(model.heard, model.heard[1:], strict=False)
        for (asked, said), (verify, _) in pairs:
            if asked.kind != "draft":
                continue
            laws = naive_sampling_probabilities(
                said.logits,
                temperature=limits["temperature"],
                top_k=limits.get("sample_top_k"),
                top_p=limits.get("top_p", 1.0),
            ).numpy()
            assert verify.kind == "verify"
            assert (laws[np.arange(5), verify.tokens] > 0).all()
            drafts += 4
    assert drafts > 40


def test_float64_stays_float64() -> None:
    """Laws of float64 logits are not rounded to float32; those of float32 logits are float32."""
    logits = torch.randn(5, 30, dtype=torch.float64)
    settings: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {},
        {"top_p": 0.8, "top_k": 9, "temperature": 0.7},
    ]
    for setting in settings:
        found = sampling_probabilities(logits, **setting)
        assert found.dtype == torch.float64
        expected = naive_sampling_probabilities(logits, **setting)
        assert float((found - expected).abs().max()) < 1e-14
        assert sampling_probabilities(logits.float(), **setting).dtype == torch.float32


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_laws_are_of_all_rows(temperature: float) -> None:
    """One law a row; greedy ones have all on the argmax, and none has any on the mask."""
    logits = torch.randn(6, FACTS.vocab)
    logits[:, FACTS.mask_token] = -torch.inf
    laws: FloatArray = Sampling(temperature=temperature).probabilities(logits)
    assert laws.dtype == np.float64
    assert np.allclose(laws.sum(axis=1), 1, atol=1e-15)
    assert (laws.argmax(axis=1) == logits.argmax(dim=1).numpy()).all()
    assert not laws[:, FACTS.mask_token].any()
    if temperature:
        assert np.allclose(np.log(laws[:, 2:]), log_probabilities(logits)[:, 2:])
