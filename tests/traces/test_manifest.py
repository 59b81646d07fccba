"""Manifests: what is shipped, what the papers say, and what is refused."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

import traces
from tests.traces.shipped import ACCEPTANCE as NAMES
from traces.manifest import AcceptanceCell, Manifest, read_manifest

ROOT = Path(__file__).parents[2]
PAPER = ROOT / os.environ.get("BLOCKCAST_SHARED", "../shared") / "papers" / "uno.yaml"
TABLE_17 = {"uno": "a_uno_qwen", "eagle3": "b_eagle3", "dflash": "c_dflash_thinking"}
Cells = dict[tuple[str, int, int | None], float]


def shipped(name: str) -> Manifest:
    """The manifest of a trace that comes with the package."""
    return read_manifest(traces.DATA / name / traces.MANIFEST_FILE)


def document(**changes: Any) -> dict[str, Any]:
    """A correct manifest as YAML would give it, with some fields replaced."""
    path = traces.DATA / "eagle3-qwen3-8b-t0" / traces.MANIFEST_FILE
    return {**yaml.safe_load(path.read_text(encoding="utf-8")), **changes}


def test_the_traces_that_ship() -> None:
    """A trace goes missing only on purpose."""
    assert NAMES == [
        "dflash-qwen3-8b-no-thinking-t1",
        "dflash-qwen3-8b-t0",
        "dflash-qwen3-8b-t1",
        "eagle3-qwen3-8b-t0",
        "eagle3-qwen3-8b-t1",
        "idlm-qwen3-8b-t1",
        "uno-qwen3-8b-t0",
        "uno-qwen3-8b-t1",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_trace_is_named_as_its_folder_and_has_every_benchmark(name: str) -> None:
    """Twelve benchmarks and their average, each at the same blocks and trees."""
    manifest = shipped(name)
    assert manifest.name == name
    assert len(manifest.benchmarks) == 13
    assert manifest.benchmarks[-1] == "Average"
    per_benchmark = [
        {(c.block, c.tree_size) for c in manifest.acceptance if c.benchmark == benchmark}
        for benchmark in manifest.benchmarks
    ]
    assert all(cells == per_benchmark[0] for cells in per_benchmark)


@pytest.mark.parametrize("name", NAMES)
def test_the_published_average_is_the_mean_of_the_benchmarks(name: str) -> None:
    """Up to rounding: a mistyped cell of the table would move the mean."""
    by_cell: dict[tuple[int, int | None], list[float]] = {}
    for cell in shipped(name).acceptance:
        by_cell.setdefault((cell.block, cell.tree_size), []).append(cell.tokens_per_step)
    for *benchmarks, average in by_cell.values():
        assert average == pytest.approx(np.mean(benchmarks), abs=0.015)


def published(name: str, tables: dict[str, Any]) -> Cells:
    """The cells of a shipped trace by (benchmark, block, tree size), out of the paper's tables."""
    decoder, *_, suffix = name.split("-")
    temperature = suffix.upper()
    if decoder == "idlm":
        rows = tables["table11"]["rows"]
        return flat({b: {k: 2 * row[k] for k in ("B4", "B8", "B16")} for b, row in rows.items()})
    if "no-thinking" in name:
        rows = tables["table16"]["rows"]
        return flat(
            {
                b: {k: row[f"{k}_no_thinking"]["al"] for k in ("B4", "B16")}
                for b, row in rows.items()
            }
        )
    rows = tables["table17"][TABLE_17[decoder]]["rows"]
    return flat({b: row[temperature] for b, row in rows.items()})


def flat(rows: dict[str, dict[str, float]]) -> Cells:
    """Rows with columns such as linear_B4 and tree_B16_V32 as cells."""
    cells = {}
    for benchmark, row in rows.items():
        for column, tokens in row.items():
            block, _, tree = column.split("B")[1].partition("_V")
            name = "Average" if benchmark == "tau" else benchmark
            cells[name, int(block), int(tree) if tree else None] = tokens
    return cells


@pytest.mark.skipif(not PAPER.exists(), reason=f"no transcribed paper at {PAPER}")
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_the_papers(name: str) -> None:
    """Nothing added, nothing left out, every value as published."""
    tables = yaml.safe_load(PAPER.read_text(encoding="utf-8"))["tables"]
    cells = {
        (c.benchmark, c.block, c.tree_size): c.tokens_per_step for c in shipped(name).acceptance
    }
    assert cells == pytest.approx(published(name, tables))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "Input should be 1"),
        ({"kind": "guessed"}, "'published-statistics', 'captured' or 'synthetic'"),
        ({"fits": {}}, "Unexpected keyword argument"),
        ({"policies": []}, "at least 1 item"),
        ({"acceptance": []}, "at least 1 item"),
        ({"temperature": float("nan")}, "finite number"),
        ({"temperature": -1.0}, "greater than or equal to 0"),
        ({"guaranteed_tokens": "2"}, "valid integer"),
        ({"guaranteed_tokens": 0}, "greater than 0"),
        ({"drafts_per_block_offset": 1}, "less than or equal to 0"),
        ({"source": ""}, "at least 1 character"),
    ],
)
def test_a_document_that_breaks_a_rule_is_refused(changes: dict[str, Any], message: str) -> None:
    """The rule is in the message."""
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(Manifest).validate_python(document(**changes))


def test_every_impossible_cell_is_named_at_once() -> None:
    """Rules between cells come as one message when a document is read."""
    rows = [
        {"benchmark": "A", "block": 4, "tokens_per_step": 5.5},
        {"benchmark": "A", "block": 8, "tokens_per_step": 2.0},
        {"benchmark": "A", "block": 8, "tokens_per_step": 2.5},
        {"benchmark": "B", "block": 8, "tree_size": 7, "tokens_per_step": 2.5},
    ]
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Manifest).validate_python(document(acceptance=rows, top_k=None))
    assert caught.value.errors()[0]["msg"].split("; ") == [
        "Value error, a cell of acceptance is given once: A, block 8 is given 2 times",
        "a benchmark has at least one cell without a tree: B has none",
        "a trace with tree sizes says its top_k",
        (
            "tokens_per_step is between 1 and 5, the guaranteed tokens without and with every "
            "draft: A, block 4 has 5.5"
        ),
        "a tree holds at least one path of 8 drafts: B, block 8, tree size 7 is smaller",
    ]


def test_fewer_tokens_than_are_guaranteed_is_refused(made: Callable[..., Manifest]) -> None:
    """A Uno step emits two tokens even when it accepts no draft."""
    with pytest.raises(ValueError, match=r"between 2 and 5.* has 1\.9"):
        made((4, None, 1.9), guaranteed_tokens=2, drafts_per_block_offset=-1)


def test_drafts_and_benchmarks(made: Callable[..., Manifest]) -> None:
    """Block and offset add up; benchmarks keep their order."""
    rows = tuple(AcceptanceCell(b, 4, 2.0) for b in ("Z", "A"))
    manifest = made(acceptance=rows, drafts_per_block_offset=-1)
    assert manifest.drafts(4) == 3
    assert manifest.benchmarks == ("Z", "A")
