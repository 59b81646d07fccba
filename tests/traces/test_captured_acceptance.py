"""Acceptance fitted to captured iterations: exact laws come back, misfits are told as they are."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.traces.made_iterations import iteration_trace
from tests.traces.shipped import ACCEPTANCE
from traces import DATA, MANIFEST_FILE
from traces.acceptance import AcceptanceModel, acceptance_model
from traces.captured_acceptance import captured_manifest, cell_of, sampling_words
from traces.fit_error import distance, fit_error
from traces.iteration_trace import IterationTrace
from traces.left_out import leave_one_out
from traces.manifest import read_manifest

SAMPLED = {"temperature": 1.0, "top_p": 0.95, "sample_top_k": 50, "top_k": 4}


def drawn_evenly(survival: Sequence[float], iterations: int) -> list[int]:
    """Accepted drafts at evenly spread uniforms, so that each S_j is met to 1 / iterations."""
    uniforms = (np.arange(iterations) + 0.5) / iterations
    return [sum(bool(s > uniform) for s in survival) for uniform in uniforms]


def capture(
    block: int, survival: Sequence[float], *, iterations: int = 512, **changes: Any
) -> IterationTrace:
    """A chain at *block*, or a tree, of four requests that accept by this law."""
    accepted = drawn_evenly(survival, iterations)
    np.random.default_rng(block).shuffle(accepted)
    requests = [accepted[n::4] for n in range(4)]
    fields: dict[str, Any] = {"name": f"at-{block}", "guaranteed": 2, "block_tokens": block}
    fields["parameters"] = SAMPLED
    return iteration_trace(requests, len(survival), **(fields | changes))


def halves(block: int) -> IterationTrace:
    """Each of block - 1 drafts is accepted in half of the cases."""
    return capture(block, [0.5**j for j in range(1, block)])


def fitted(*captures: IterationTrace) -> AcceptanceModel:
    """The model of captures."""
    manifest = captured_manifest(captures, "mine")
    return acceptance_model(manifest, manifest.benchmarks[0])


def test_the_manifest_of_captures() -> None:
    """Cells hold the uncut means, exactly; the rest is what the captures say of themselves."""
    manifest = captured_manifest([halves(2), halves(4), halves(8)], "mine")
    assert (manifest.name, manifest.kind, manifest.model) == ("mine", "captured", "aims")
    assert (manifest.policies, manifest.benchmarks) == (("uno-linear",), ("counting",))
    assert (manifest.temperature, manifest.guaranteed_tokens) == (1.0, 2)
    assert manifest.sampling == "temperature 1, top-p 0.95, top-k 50"
    assert manifest.source == "captured: at-2, at-4, at-8"
    assert (manifest.drafts_per_block_offset, manifest.top_k) == (-1, None)
    found = {(cell.block, cell.tree_size): cell.tokens_per_step for cell in manifest.acceptance}
    assert found == {(2, None): 2.5, (4, None): 2.875, (8, None): 2 + 127 / 128}


def test_constant_acceptance_comes_back() -> None:
    """S_j is 2^-j at every block, between the captured ones too, and nothing is off."""
    captures = [halves(2), halves(4), halves(8)]
    model = fitted(*captures)
    assert model.fitted_survival(4) == pytest.approx([0.5, 0.25, 0.125], abs=1e-5)
    assert model.tokens_per_step(3) == pytest.approx(2.75, abs=1e-5)
    for trace in captures:
        error = fit_error(model, trace)
        assert error.relative_error == pytest.approx(0.0, abs=1e-5)
        for found in (error.fitted, error.drawn):
            assert (found.survival, found.total_variation) == pytest.approx((0, 0), abs=1e-4)
        assert error.observed_tokens_per_step == pytest.approx(3 - 2.0 ** (1 - error.block))


def test_trees_and_chains_of_one_law_come_back() -> None:
    """A Weibull law with branching by hand, at blocks and trees that were captured and others."""
    scale, shape, branching = 3.0, 0.9, 0.2

    def law(drafts: int, tree_size: int | None) -> list[float]:
        return [
            math.exp(-((j / scale) ** shape) / (1 + branching * math.log((tree_size or j) / j)))
            for j in range(1, drafts + 1)
        ]

    chains = [capture(block, law(block, None), guaranteed=1) for block in (4, 8, 16)]
    trees = [
        capture(16, law(16, size), guaranteed=1, nodes=size, policy="uno-tree", name=f"tree-{size}")
        for size in (32, 60)
    ]
    manifest = captured_manifest([*chains, *trees], "mine")
    assert (manifest.drafts_per_block_offset, manifest.top_k) == (0, 4)
    assert manifest.policies == ("uno-linear", "uno-tree")
    assert [cell_of(trace) for trace in trees] == [(16, 32), (16, 60)]
    model = acceptance_model(manifest, "counting")
    for block, size in [(4, None), (6, None), (16, None), (16, 32), (16, 45), (8, 32)]:
        closed = 1 + sum(law(block, size))
        assert model.fitted_tokens_per_step(block, size) == pytest.approx(closed, rel=0.005)
    error = fit_error(model, trees[1])
    assert (error.block, error.tree_size) == (16, 60)
    assert abs(error.relative_error) < 0.005
    assert error.fitted.survival < 0.01


def test_a_law_of_another_form_is_told_as_far_off() -> None:
    """All four drafts or none, each in half of the steps: a^j with the same mean is not that.

    The mean of a single cell is met; S_1 and S_4 are not, and neither are 0 to 4 accepted drafts.
    """
    trace = capture(4, [0.5] * 4, guaranteed=1)
    model = fitted(trace)
    a = float(brentq(lambda x: x + x**2 + x**3 + x**4 - 2, 0.1, 0.99))
    error = fit_error(model, trace)
    assert error.relative_error == pytest.approx(0.0, abs=1e-6)
    off = max(abs(0.5 - a**j) for j in range(1, 5))
    chances = [(1 - a) * a**j for j in range(4)] + [a**4]
    variation = (abs(chances[0] - 0.5) + sum(chances[1:4]) + abs(chances[4] - 0.5)) / 2
    for found in (error.fitted, error.drawn):
        assert found.survival == pytest.approx(off, abs=1e-5)
        assert found.total_variation == pytest.approx(variation, abs=1e-5)


def test_what_is_drawn_has_the_mean_that_the_fit_misses() -> None:
    """Means that no curve has: the fit is off, the model of the cell is not."""
    captures = [capture(block, [s] * (block - 1)) for block, s in ((2, 0.25), (4, 0.75), (8, 0.5))]
    model = fitted(*captures)
    error = fit_error(model, captures[1])
    assert abs(error.relative_error) > 0.05
    assert 2 + model.survival(4).sum() == pytest.approx(2 + 3 * 0.75, abs=1e-3)
    assert error.drawn != error.fitted
    assert error.fitted_tokens_per_step == model.fitted_tokens_per_step(4)


def test_distance_of_laws_of_other_lengths() -> None:
    """(1/2) against (1/2, 1/4): S_2 differs by 1/4, and so do the chances of 1 and of 2."""
    found = distance(np.array([0.5]), np.array([0.5, 0.25]))
    assert (found.survival, found.total_variation) == (0.25, 0.25)
    nothing = distance(np.zeros(0), np.zeros(0))
    assert (nothing.survival, nothing.total_variation) == (0.0, 0.0)


def test_dependence_is_that_of_the_capture() -> None:
    """Requests that accept all or nothing: everything lies between them."""
    trace = iteration_trace([[3] * 8, [0] * 8] * 4, 3, guaranteed=2, parameters=SAMPLED)
    error = fit_error(fitted(trace), trace)
    assert error.lag_1_correlation == pytest.approx(1.0)
    assert error.intraclass_correlation == pytest.approx(1.0)
    # Means have a variance of 9/4 8/7, independent ones 9/4 64/63 / 8.
    assert error.spread_ratio == pytest.approx(math.sqrt(8 / 7 / (64 / 63 / 8)))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"temperature": 0.0, "top_p": 0.9, "sample_top_k": 5}, "greedy"),
        ({"temperature": 0, "top_p": None}, "greedy"),
        ({"temperature": 1.0, "top_p": None, "sample_top_k": None}, "temperature 1"),
        ({"temperature": 0.7, "top_p": 1.0, "top_k": 32}, "temperature 0.7"),
        (
            {"temperature": 1, "top_p": 0.95, "sample_top_k": 50},
            "temperature 1, top-p 0.95, top-k 50",
        ),
    ],
)
def test_how_tokens_are_sampled(parameters: dict[str, Any], words: str) -> None:
    """As the published traces say it; what cuts nothing is left out."""
    assert sampling_words(parameters) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoint": {"name": "x", "sha256": "0" * 64, "trained_block_tokens": 4}}, "drafter"),
        ({"target": {"name": "x", "sha256": "0" * 64}}, "target"),
        ({"task": "sorting"}, "task are fitted together, got 'counting' and 'sorting'"),
        ({"guaranteed": 1}, "number of guaranteed_tokens are fitted together, got 2 and 1"),
        ({"parameters": {**SAMPLED, "temperature": 0.0}}, "sampling are fitted together, got 'te"),
        ({"block_tokens": 9}, r"drafts - B: -1 in at-4, -2 in at-8"),
        ({"block_tokens": 7}, r"drafts - B: -1 in at-4, \+0 in at-8"),
        ({"block_tokens": 4}, "a cell of acceptance is given once: counting, block 4 is given"),
        (
            {"nodes": 20, "parameters": {**SAMPLED, "top_k": None}},
            "parameters.top_k of at-8, a tree, is a count, got None",
        ),
    ],
)
def test_captures_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    """What differs is told with both values."""
    n_drafts = 3 if changes.get("block_tokens") == 4 else 7
    other = capture(8, [0.5**j for j in range(1, n_drafts + 1)], **changes)
    with pytest.raises(ValueError, match=words):
        captured_manifest([halves(4), other], "mine")


def test_captures_that_nothing_can_be_fitted_to() -> None:
    """No capture at all, none with an uncut iteration, a temperature that is none."""
    with pytest.raises(ValueError, match="at least one trace, got none"):
        captured_manifest([], "mine")
    empty = iteration_trace([[3]], 3, guaranteed=1, emitted=[[2]], parameters=SAMPLED)
    with pytest.raises(ValueError, match="acceptance is known of uncut iterations, got none in"):
        fit_error(fitted(halves(4)), empty)
    for temperature in (None, "hot", -1.0, True):
        odd = capture(4, [0.5], parameters={"temperature": temperature})
        with pytest.raises(ValueError, match="is a number of at least 0, got"):
            captured_manifest([odd], "mine")
    with pytest.raises(ValueError, match="known for blocks 1 to 4, got block 8"):
        fit_error(fitted(halves(2), halves(4)), halves(8))


def test_a_cell_that_was_left_out_is_predicted() -> None:
    """Two of three chains of constant acceptance give the third; one alone gives it as well."""
    for blocks in ((2, 4, 8), (2, 8)):
        manifest = captured_manifest([halves(block) for block in blocks], "mine")
        found = leave_one_out(manifest, "counting")
        assert [each.cell for each in found] == list(manifest.acceptance)
        for each in found:
            assert each.relative_error == pytest.approx(0.0, abs=1e-4)
        assert [each.is_beyond for each in found] == [*[False] * (len(blocks) - 1), True]


def test_one_cell_cannot_be_left_out() -> None:
    """There is nothing left to fit."""
    with pytest.raises(ValueError, match="at least two cells is left out, got 1 of 'counting'"):
        leave_one_out(captured_manifest([halves(4)], "mine"), "counting")


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_left_out_cells_are_those_of_a_model_without_them(name: str) -> None:
    """For published traces too: the fit of the manifest without the cell, where it has others."""
    manifest = read_manifest(DATA / name / MANIFEST_FILE)
    benchmark = manifest.benchmarks[0]
    for found in leave_one_out(manifest, benchmark):
        rest = tuple(cell for cell in manifest.acceptance if cell != found.cell)
        mine = [cell for cell in rest if cell.benchmark == benchmark]
        if found.is_beyond or all(cell.tree_size is not None for cell in mine):
            continue
        model = acceptance_model(dataclasses.replace(manifest, acceptance=rest), benchmark)
        if found.cell.tree_size is not None and not any(cell.tree_size for cell in mine):
            continue
        again = model.fitted_tokens_per_step(found.cell.block, found.cell.tree_size)
        assert found.predicted_tokens_per_step == pytest.approx(again)
