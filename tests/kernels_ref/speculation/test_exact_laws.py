"""Losslessness, exactly: every way that a decoder's draws can fall, with its probability.

The law that comes out is the target's own to rounding, for any drafter; and the rule that must not
be used, the ratio test on drafts that were chosen, is far from it.
"""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from kernels_ref.decoding import verifying
from kernels_ref.decoding.query import ModelFacts
from tests.kernels_ref.speculation.enumerated import distance
from tests.kernels_ref.speculation.exact_laws import (
    SAMPLING,
    always,
    chained,
    completed,
    decoded_law,
    iteration_law,
)
from tests.kernels_ref.speculation.table_model import DRAFTERS, MASK, TINY, TableModel
from tests.kernels_ref.speculation.wrong_rule import accepting_by_ratio

PROMPT = (2, 0)
ENDLESS = ModelFacts(MASK, (), 4, 64, 4)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("ar", {}),
    ("uno-linear", {"block": 2}),
    ("uno-linear", {"block": 3}),
    ("uno-tree", {"block": 3, "top_k": 2, "tree_size": 4}),
    ("eagle3-linear", {"block": 3}),
    ("eagle3-tree", {"block": 2, "top_k": 2, "tree_size": 4}),
    ("dflash", {"block": 4}),
    ("self-speculation", {"block": 3}),
]
CHOOSING = [case for case in CASES if case[0] not in {"ar", "uno-linear"}]
"""Those whose drafts are chosen and not drawn."""
LONGEST = 5
"""Tokens of the longest iteration of a case, and the first token before it."""
SKEWED = np.array([0.55, 0.0, 0.3, 0.15])
"""What a drafter says always, where the ratio test is tried."""


@pytest.mark.parametrize("drafter", ["oracle", "even", "narrow"])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_iteration_has_the_target_s_law(name: str, case: dict[str, Any], drafter: str) -> None:
    """The tokens of one iteration, as many as they are, and autoregression behind: 1e-12."""
    model = TableModel(ENDLESS, DRAFTERS[drafter], seed=3)
    settings = {**case, "temperature": 1.0}
    law = iteration_law(model, name, settings, PROMPT)
    lengths = {len(path) for path in law}
    assert max(lengths) <= LONGEST
    assert name == "ar" or len(lengths) > 1
    found = completed(law, model, PROMPT, LONGEST, settings)
    assert distance(found, chained(model, PROMPT, LONGEST, settings)) < 1e-12


@pytest.mark.parametrize("sampling", SAMPLING[1:])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_whole_decodes_have_the_target_s_law(
    name: str, case: dict[str, Any], sampling: dict[str, Any]
) -> None:
    """All texts up to an end token or the limit, through several iterations, cooled and cut off."""
    model = TableModel(TINY, DRAFTERS["even"], seed=1)
    settings = {**case, **sampling}
    found = decoded_law(model, name, settings, PROMPT, 4)
    assert any(path[-1] in TINY.end_tokens and len(path) < 4 for path in found)
    assert distance(found, chained(model, PROMPT, 4, settings)) < 1e-12


@pytest.mark.parametrize(("name", "case"), CHOOSING)
def test_the_ratio_test_on_chosen_drafts_is_not_lossless(
    name: str, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is off by more than a tenth in total variation where the right rule is off by nothing."""
    model = TableModel(ENDLESS, always(SKEWED), seed=2)
    settings = {**case, "temperature": 1.0}
    expected = chained(model, PROMPT, 3, settings)
    assert distance(decoded_law(model, name, settings, PROMPT, 3), expected) < 1e-12
    monkeypatch.setattr(verifying, "accept_chosen", accepting_by_ratio(SKEWED))
    assert distance(decoded_law(model, name, settings, PROMPT, 3), expected) > 0.1
