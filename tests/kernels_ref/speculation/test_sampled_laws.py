"""Losslessness as a claim on samples: thousands of decodes against the target's law, chi-square.

All seeds are fixed. The same test refuses the rule that must not be used.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from scipy.stats import chisquare

from kernels_ref.decoding import verifying
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.continuing import Settings, continued
from tests.kernels_ref.speculation.exact_laws import Law, always, chained
from tests.kernels_ref.speculation.table_model import DRAFTERS, TINY, Context, TableModel
from tests.kernels_ref.speculation.wrong_rule import accepting_by_ratio

PROMPT = (2, 0)
TOKENS = 4
DECODES = 1000
LEAST_EXPECTED = 5
"""Texts that are rarer are counted together."""
SKEWED = np.array([0.55, 0.0, 0.3, 0.15])
CASES: list[tuple[str, dict[str, Any]]] = [
    ("ar", {}),
    ("uno-linear", {"block": 3}),
    ("uno-tree", {"block": 3, "top_k": 2, "tree_size": 4}),
    ("eagle3-linear", {"block": 2}),
    ("eagle3-tree", {"block": 2, "top_k": 2, "tree_size": 4}),
    ("dflash", {"block": 3}),
    ("self-speculation", {"block": 3}),
]


def told(model: TableModel, name: str, settings: Settings, seed: int) -> Counter[Context]:
    """How often each text came out of `DECODES` requests."""
    requests = [Request(PROMPT, TOKENS)] * DECODES
    run = continued(model, name, settings, requests, seed=seed)
    return Counter(tuple(row.tokens[len(PROMPT) :].tolist()) for row in run.rows)


def surprise(counts: Counter[Context], law: Law) -> float:
    """The probability of a distance this large or larger, if *counts* are of *law*."""
    assert set(counts) <= set(law)
    expected = {text: DECODES * chance for text, chance in law.items()}
    common = [text for text, many in expected.items() if many >= LEAST_EXPECTED]
    rare = DECODES - sum(expected[text] for text in common)
    seen = [counts.get(text, 0) for text in common]
    return float(
        chisquare([*seen, DECODES - sum(seen)], [*(expected[text] for text in common), rare]).pvalue
    )


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_decodes_follow_the_target_s_law(
    name: str, case: dict[str, Any], temperature: float
) -> None:
    """Of every decoder at two temperatures, in one large batch: p > 0.001."""
    model = TableModel(TINY, DRAFTERS["even"], seed=5)
    settings = {**case, "temperature": temperature}
    law = chained(model, PROMPT, TOKENS, settings)
    assert surprise(told(model, name, settings, seed=11), law) > 1e-3


@pytest.mark.parametrize(
    ("name", "case"), [case for case in CASES if case[0] not in {"ar", "uno-linear"}]
)
def test_the_ratio_test_on_chosen_drafts_is_found_out(
    name: str, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same test with min(1, p / q) on an argmax, or on the best of a tree: p < 1e-6."""
    model = TableModel(TINY, always(SKEWED), seed=5)
    settings = {**case, "temperature": 1.0}
    law = chained(model, PROMPT, TOKENS, settings)
    monkeypatch.setattr(verifying, "accept_chosen", accepting_by_ratio(SKEWED))
    assert surprise(told(model, name, settings, seed=11), law) < 1e-6
