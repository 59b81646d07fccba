"""Acceptance models: published cells, errors of the fit, hand-made cases and refusals."""

import dataclasses
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import traces
from tests.traces.shipped import ACCEPTANCE as NAMES
from traces.acceptance import AcceptanceModel, acceptance_model, largest_block, largest_tree
from traces.manifest import AcceptanceCell, Manifest, read_manifest


@cache
def shipped(name: str) -> Manifest:
    """The manifest of a trace that comes with the package."""
    return read_manifest(traces.DATA / name / traces.MANIFEST_FILE)


@cache
def fitted(name: str, benchmark: str) -> AcceptanceModel:
    """Its acceptance on one benchmark."""
    return acceptance_model(shipped(name), benchmark)


MODELS = [(name, benchmark) for name in NAMES for benchmark in shipped(name).benchmarks]


@pytest.mark.parametrize(("name", "benchmark"), MODELS)
def test_a_published_cell_is_returned_as_published(name: str, benchmark: str) -> None:
    """Exactly; and the draws' distribution is moved to that mean."""
    model = fitted(name, benchmark)
    rows = [cell for cell in shipped(name).acceptance if cell.benchmark == benchmark]
    assert model.points == len(rows)
    for row in rows:
        assert model.is_published(row.block, row.tree_size)
        assert model.tokens_per_step(row.block, row.tree_size) == row.tokens_per_step
        mean = model.guaranteed_tokens + model.survival(row.block, row.tree_size).sum()
        assert mean == pytest.approx(row.tokens_per_step, abs=1e-9)
    assert not model.is_published(5)
    assert model.tokens_per_step(5) == model.fitted_tokens_per_step(5)


# Relative errors over all benchmarks of a trace, measured and rounded up: median and worst of the
# fit, then of the cells at block 8 as predicted from blocks 4 and 16 alone.
ERRORS = {
    "dflash-qwen3-8b-no-thinking-t1": (0.001, 0.001, None, None),
    "dflash-qwen3-8b-t0": (0.028, 0.061, 0.065, 0.094),
    "dflash-qwen3-8b-t1": (0.018, 0.055, 0.044, 0.100),
    "eagle3-qwen3-8b-t0": (0.016, 0.080, 0.039, 0.122),
    "eagle3-qwen3-8b-t1": (0.010, 0.058, 0.022, 0.065),
    "idlm-qwen3-8b-t1": (0.002, 0.010, 0.004, 0.016),
    "uno-qwen3-8b-t0": (0.005, 0.035, 0.006, 0.036),
    "uno-qwen3-8b-t1": (0.003, 0.031, 0.005, 0.050),
}


def errors(model: AcceptanceModel, rows: list[AcceptanceCell]) -> list[float]:
    """Relative errors of the fit on some cells of its benchmark."""
    return [
        abs(model.fitted_tokens_per_step(row.block, row.tree_size) / row.tokens_per_step - 1)
        for row in rows
    ]


@pytest.mark.parametrize("name", NAMES)
def test_how_well_the_form_fits(name: str) -> None:
    """Median and worst error over every published cell are those stated above."""
    found = []
    for benchmark in shipped(name).benchmarks:
        rows = [cell for cell in shipped(name).acceptance if cell.benchmark == benchmark]
        found.append(errors(fitted(name, benchmark), rows))
        assert fitted(name, benchmark).residual == pytest.approx(np.median(found[-1]))
    median, worst, *_ = ERRORS[name]
    assert np.median(np.concatenate(found)) <= median
    assert np.max(found) <= worst


@pytest.mark.parametrize("name", [name for name in NAMES if ERRORS[name][2] is not None])
def test_how_well_a_block_left_out_is_predicted(name: str) -> None:
    """Block 8, chains and trees, from blocks 4 and 16."""
    found: list[float] = []
    for benchmark in shipped(name).benchmarks:
        mine = [cell for cell in shipped(name).acceptance if cell.benchmark == benchmark]
        kept = tuple(cell for cell in mine if cell.block != 8)
        model = acceptance_model(dataclasses.replace(shipped(name), acceptance=kept), benchmark)
        found += errors(model, [cell for cell in mine if cell.block == 8])
    _, _, median, worst = ERRORS[name]
    assert np.median(found) <= (median or 0.0)
    assert np.max(found) <= (worst or 0.0)


def test_tokens_by_hand(made: Callable[..., Manifest]) -> None:
    """Two guaranteed tokens and B-1 drafts at a = 1/2: 2 + 1/2 + 1/4 + 1/8 at block 4."""
    cells_by_hand = ((2, None, 2.5), (4, None, 2.875))
    manifest = made(*cells_by_hand, guaranteed_tokens=2, drafts_per_block_offset=-1)
    model = acceptance_model(manifest)
    assert model.guaranteed_tokens == 2
    assert model.survival(4) == pytest.approx([0.5, 0.25, 0.125], abs=1e-6)
    assert model.tokens_per_step(3) == pytest.approx(2.75, abs=1e-6)
    assert model.tokens_per_step(1) == 2.0
    assert model.draw(1, 3, np.random.default_rng(0)).tolist() == [2, 2, 2]


def test_constant_acceptance_has_the_closed_form(made: Callable[..., Manifest]) -> None:
    """(1 - a^(k+1)) / (1 - a) at every block, from its values at 4 and 16."""
    alpha = 0.8
    closed = {k: (1 - alpha ** (k + 1)) / (1 - alpha) for k in range(1, 17)}
    model = acceptance_model(made((4, None, closed[4]), (16, None, closed[16])))
    for block, tokens in closed.items():
        assert model.tokens_per_step(block) == pytest.approx(tokens, rel=1e-5)


@pytest.mark.parametrize(("mean", "emitted"), [(1.0, 1), (5.0, 5)])
def test_certain_rejection_and_certain_acceptance(
    made: Callable[..., Manifest], mean: float, emitted: int
) -> None:
    """The ends of the scale are exact."""
    model = acceptance_model(made((4, None, mean)))
    assert model.survival(4).tolist() == [float(emitted == 5)] * 4
    assert set(model.draw(4, 100, np.random.default_rng(1))) == {emitted}


def test_the_largest_cells() -> None:
    """A trace of chains has no largest tree."""
    assert largest_block(shipped("uno-qwen3-8b-t1")) == 16
    assert largest_tree(shipped("uno-qwen3-8b-t1")) == 60
    assert largest_tree(shipped("dflash-qwen3-8b-t1")) is None


@pytest.mark.parametrize(
    ("name", "cell", "message"),
    [
        ("uno-qwen3-8b-t1", (17, None), "acceptance is known for blocks 1 to 16, got block 17"),
        ("uno-qwen3-8b-t1", (0, None), "acceptance is known for blocks 1 to 16, got block 0"),
        (
            "uno-qwen3-8b-t1",
            (16, 61),
            "at block 16 is known for tree sizes 15 to 60, got tree size",
        ),
        ("uno-qwen3-8b-t1", (16, 14), "tree sizes 15 to 60, got tree size 14"),
        ("eagle3-qwen3-8b-t0", (16, 15), "tree sizes 16 to 60, got tree size 15"),
        ("uno-qwen3-8b-t1", (1, 0), "tree sizes 1 to 60, got tree size 0"),
        ("dflash-qwen3-8b-t1", (16, 32), "acceptance is known for chains only, got tree size 32"),
    ],
)
def test_outside_what_was_published(name: str, cell: tuple[int, int | None], message: str) -> None:
    """Every question about an unknown cell is answered by the rule, the value and the range."""
    model = fitted(name, "GSM8K")
    full = f"trace '{name}', benchmark 'GSM8K': .*{re.escape(message)}"
    for ask in (model.survival, model.tokens_per_step, model.fitted_tokens_per_step):
        with pytest.raises(ValueError, match=full):
            ask(*cell)
    with pytest.raises(ValueError, match=full):
        model.draw(cell[0], 1, np.random.default_rng(0), cell[1])
    assert not model.is_published(*cell)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("gsm8k", " did you mean GSM8K?"), ("AIME24", " did you mean AIME-24"), ("chess", "")],
)
def test_an_unknown_benchmark_names_the_nearest_and_all(asked: str, hint: str) -> None:
    """Whatever the case of the letters."""
    with pytest.raises(ValueError, match="no benchmark") as caught:
        acceptance_model(shipped("uno-qwen3-8b-t1"), asked)
    message = str(caught.value)
    assert message.startswith(f"no benchmark '{asked}' in trace 'uno-qwen3-8b-t1';{hint}")
    assert message.endswith("known: " + ", ".join(shipped("uno-qwen3-8b-t1").benchmarks))
