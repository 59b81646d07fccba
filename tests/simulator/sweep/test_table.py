"""The table: its columns, their types, and that nothing changes on the way to disk."""

import csv
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.deployment import build
from simulator.result import run
from simulator.scenario import with_settings
from simulator.sweep.columns import columns_of, write_table
from simulator.sweep.table import METRIC_COLUMNS, Row
from simulator.sweep.task import Task, simulated
from tests.simulator.sweep.points import BASE

OPEN: dict[str, Any] = with_settings(
    BASE,
    {
        "workload": {
            "kind": "poisson",
            "rate_per_s": 5.0,
            "requests": 40,
            "prompt_tokens": 64,
            "output_tokens": 32,
        },
        "slo": {"ttft": 1.0},
        "parallel.dp": 2,
    },
)


def test_a_run_has_every_column_of_numbers() -> None:
    """What fronts and objectives may name is there, and has the value of the run's summary."""
    row = simulated(Task(OPEN, gpu_hour_cost=3.6, is_priced=True))
    metrics = run(build(OPEN, "here"), keep_steps=False).summary["metrics"]
    assert [column for column in METRIC_COLUMNS if not isinstance(row[column], int | float)] == []
    for column, value in (
        ("output_tokens_per_s", metrics["output_tokens_per_s"]),
        ("ttft_p99_s", metrics["ttft_s"]["p99"]),
        ("inter_token_mean_s", metrics["inter_token_s"]["mean"]),
        ("goodput_share", metrics["goodput"]["share"]),
        ("gpus", 2),
    ):
        assert row[column] == value
    # Two GPUs at 3.6 an hour are 0.002 a second.
    cost = 1e6 * 0.002 / metrics["output_tokens_per_s"]
    assert row["cost_per_million_output_tokens"] == pytest.approx(cost)
    assert (row["status"], row["error"]) == ("ok", None)


def test_a_refused_scenario_is_a_row() -> None:
    """With every mistake in its error, and without any metric."""
    document = with_settings(OPEN, {"model": "qwen3-9b", "parallel.tp": 0})
    row = simulated(Task(document, gpu_hour_cost=None, is_priced=False))
    assert row.keys() == {"status", "error"}
    assert row["status"] == "failed"
    assert "did you mean qwen3-8b" in str(row["error"])
    assert "parallel.tp" in str(row["error"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], int),
        ([1, 2.5], float),
        ([True, None], bool),
        (["a", None], str),
        ([True, 1], str),
        ([512, "whole"], str),
        ([1, 2**70], str),
        ([None, None], str),
    ],
)
def test_a_column_has_one_type(values: list[Any], kind: type) -> None:
    """Whole numbers stay whole, numbers that mix are float, and whatever else mixes is text."""
    rows: list[Row] = [{"a": value} for value in values]
    assert columns_of(rows, ["a"]) == {"a": kind}


def test_columns_have_their_order() -> None:
    """The leading ones, what runs say as it comes, then status and error."""
    rows: list[Row] = [
        {"point": 0, "status": "failed", "error": "e"},
        {"point": 1, "b": 1, "a": 2, "status": "ok", "error": None},
    ]
    assert list(columns_of(rows, ["point", "name"])) == [
        "point",
        "name",
        "b",
        "a",
        "status",
        "error",
    ]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "f": st.none() | st.floats(allow_nan=False),
                "i": st.none() | st.integers(-(2**63), 2**63 - 1),
                "s": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            }
        ),
        min_size=1,
        max_size=20,
    )
)
def test_parquet_keeps_every_value(tmp_path: Path, rows: list[Row]) -> None:
    """What is read back is what was written, to the last bit."""
    files = tmp_path / "t.parquet", tmp_path / "t.csv"
    columns = {"f": float, "i": int, "s": str}
    write_table(*files, lambda: rows, columns)
    assert pq.read_table(files[0]).to_pylist() == rows
    with files[1].open(encoding="utf-8", newline="") as file:
        cells = [line["f"] for line in csv.DictReader(file)]
    # An empty cell is nothing.
    assert [float(cell) if cell else None for cell in cells] == [row["f"] for row in rows]
