"""The shipped studies, each with a part of its points and fewer requests."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.documents import read_mapping
from simulator.execution.pool import pool_of
from simulator.library import STUDIES
from simulator.published import publication
from simulator.sweep.folder import journal_of
from simulator.sweep.reading import read_sweep, sweep_of
from simulator.sweep.sweep import run_points
from simulator.sweep.table import Row
from tests.cli.command import call

USERS = "workload.concurrency"
SCALE = "workload.rate_scale"
RATE = "output_tokens_per_s"
SPEED = "output_tokens_per_s_per_request"
TRACE_FILE = "AzureLLMInferenceTrace_conv.csv"
REQUESTS = 100
SPAN_S = 20.0
"""The made-up trace has so many requests in so many seconds."""


@dataclass(frozen=True)
class Reduction:
    """How a study is made small: the values of its grid that stay, and settings."""

    grid: Mapping[str, list[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)


REDUCED = {
    "uno-concurrency": Reduction({USERS: [1, 8, 64]}),
    "gpu-generations": Reduction({USERS: [1, 128]}, {"workload.output_tokens": 128}),
    "window-gate": Reduction(
        {"decode.window": [1, 3], "decode.theta_spawn": [0.0, 0.6], USERS: [1, 4]},
        {"workload.requests": 4},
    ),
    "buffer-batch": Reduction({"decode.buffer": [1, 3], USERS: [1, 4]}, {"workload.requests": 4}),
    "trace-load": Reduction({SCALE: [0.5, 1.0, 2.0, 4.0]}),
}


@cache
def rows(name: str) -> list[Row]:
    """The table of a study that was made small."""
    with tempfile.TemporaryDirectory() as folder:
        settings = REDUCED[name].settings
        if name == "trace-load":
            settings = {"workload.file": str(made_up_trace(Path(folder)))}
        return ran(small(name), settings, Path(folder))


def small(name: str) -> dict[str, Any]:
    """The document of a study with the part of its grid that stays."""
    document = read_mapping(STUDIES.path(name))
    cuts = REDUCED[name].grid
    for dotted, values in cuts.items():
        assert set(values) <= set(document["grid"][dotted])
    return document | {"grid": document["grid"] | cuts}


def ran(document: dict[str, Any], settings: Mapping[str, Any], folder: Path) -> list[Row]:
    """The rows of a sweep, in the order of its points."""
    sweep = sweep_of(document, Path("study.yaml"), settings)
    with journal_of(folder / "out", sweep, resume=False) as journal, pool_of(1) as pool:
        run_points(sweep, journal, pool)
        return [journal.row(point) for point in journal.points]


def made_up_trace(folder: Path, requests: int = REQUESTS) -> Path:
    """A file like Azure's, its requests at random within SPAN_S, the last at its end."""
    random = np.random.default_rng(7)
    arrivals_s = np.sort(random.uniform(0.0, SPAN_S, requests))
    arrivals_s[[0, -1]] = 0.0, SPAN_S
    begin = datetime.fromisoformat("2023-11-16T18:15:46")
    path = folder / TRACE_FILE
    lines = [
        f"{begin + timedelta(seconds=float(arrival_s))},{prompt},{output}"
        for arrival_s, prompt, output in zip(
            arrivals_s,
            random.integers(200, 3000, requests),
            random.integers(20, 400, requests),
            strict=True,
        )
    ]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines, ""]))
    return path


def by(name: str, varying: str) -> dict[str, list[Row]]:
    """The rows of a study, those together that differ in the field *varying* alone."""
    groups: dict[str, list[Row]] = {}
    document = small(name)
    fields = ("name", "engine", "hardware", SCALE, USERS, *document["grid"])
    told = [column for column in rows(name)[0] if column in fields or column.startswith("decode.")]
    for row in rows(name):
        key = str([row[column] for column in told if column != varying])
        groups.setdefault(key, []).append(row)
    return groups


def numbers(table: list[Row], column: str) -> list[float]:
    """A column of numbers."""
    return [float(row[column] or 0) for row in table]


def rises(values: list[float]) -> bool:
    """Whether each is more than the one before."""
    return all(before < after for before, after in pairwise(values))


@pytest.mark.parametrize("name", STUDIES.names())
def test_no_point_fails(name: str) -> None:
    """Every study runs, made small, and says what it is about and from where."""
    sweep = read_sweep(STUDIES.path(name), {})
    assert sweep.file.name == name
    assert sweep.file.note
    assert sweep.fronts
    assert [row["error"] for row in rows(name) if row["status"] != "ok"] == []
    for front in sweep.fronts.values():
        for column in (*front.higher, *front.lower):
            assert None not in {row[column] for row in rows(name)}


def test_uno_has_the_published_configurations() -> None:
    """The points are the 13 speculative columns of table 18 and plain decoding, set alike."""
    (table, *_) = publication("uno").tables
    document = read_mapping(STUDIES.path("uno-concurrency"))
    ours = {
        point["name"]: {f"decode.{key}": value for key, value in point["decode"].items()}
        for point in document["points"]
    }
    assert ours == dict(table.columns)
    assert len(ours) == 13 + 1
    assert document["grid"][USERS] == list(table.rows)
    same = ("model", "hardware", "engine", "batching", "workload")
    assert {part: document["scenario"][part] for part in same} == {
        part: table.base[part] for part in same
    }


def test_uno_comes_out_as_published() -> None:
    """Every cell of table 18 that is to be had lies in the interval that its run states."""
    (table, *_) = publication("uno").tables
    (measure,) = table.measures
    found = 0
    for row in rows("uno-concurrency"):
        published = measure.values[row[USERS]][row["name"]]  # type: ignore[index]
        if published is not None:
            found += 1
            low, high = numbers([row], f"{RATE}_low")[0], numbers([row], f"{RATE}_high")[0]
            assert low <= published <= high, row["name"]
    assert found == 3 * 9


def test_uno_serves_more_users_each_more_slowly() -> None:
    """Of every configuration, throughput rises with the users and the speed of each falls."""
    groups = by("uno-concurrency", USERS)
    assert len(groups) == 14
    for table in groups.values():
        assert rises(numbers(table, RATE))
        assert rises(numbers(table, SPEED)[::-1])


def test_a_newer_gpu_is_not_slower() -> None:
    """H100, H200, B200: as much arithmetic or more, and more bandwidth each."""
    groups = by("gpu-generations", "hardware")
    assert len(groups) == 5 * 2
    for table in groups.values():
        assert [row["hardware"] for row in table] == ["h100-sxm", "h200-sxm", "b200-sxm"]
        assert rises(numbers(table, RATE))


@pytest.mark.parametrize(
    ("name", "size", "alone"),
    [
        ("window-gate", "decode.window", {"policy": "joint-threshold"}),
        ("buffer-batch", "decode.buffer", {"policy": "single-block", "store": "separate"}),
    ],
)
def test_one_block_is_the_policy_without_overlap(
    name: str, size: str, alone: dict[str, Any], tmp_path: Path
) -> None:
    """A window of 1 is joint-threshold, a buffer of 1 single-block with a store of its own."""
    document = small(name)
    grid = {dotted: v for dotted, v in document["grid"].items() if not dotted.startswith("decode.")}
    trace = document["scenario"]["decode"]["trace"]
    other = document | {"grid": grid | {"decode": [alone | {"trace": trace}]}, "where": []}
    expected = ran(other, REDUCED[name].settings, tmp_path)
    got = [row for row in rows(name) if row[size] == 1]
    assert len(got) == len(expected) > 0
    for column in (RATE, "forwards", "tokens_per_forward", "latency_p99_s"):
        assert sorted(numbers(got, column)) == sorted(numbers(expected, column))


@pytest.mark.parametrize("name", ["window-gate", "buffer-batch"])
def test_a_batch_reveals_as_much_a_forward(name: str) -> None:
    """What a request reveals is its own: tokens per forward are the same at every batch."""
    for table in by(name, USERS).values():
        assert len(set(numbers(table, "tokens_per_forward"))) == 1
        assert rises(numbers(table, RATE))


def test_more_load_is_served_and_waited_for() -> None:
    """Nobody serves more than is offered, and 99 % of requests wait as long or longer for more."""
    groups = by("trace-load", SCALE)
    assert len(groups) == 3
    for table in groups.values():
        scales = numbers(table, SCALE)
        offered = [REQUESTS / SPAN_S * scale for scale in scales]
        served = numbers(table, "requests_per_s")
        assert all(took <= came for took, came in zip(served, offered, strict=True))
        waits = numbers(table, "latency_p99_s")
        assert waits == sorted(waits)
        assert {row["requests_finished"] for row in table} == {REQUESTS}


def test_a_trace_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the field and the file; with that or another file at hand it runs."""
    monkeypatch.chdir(tmp_path)
    missing = call("sweep", "trace-load", "--out", "out", "--workers", 1)
    assert missing.code == 1
    assert f"21 points: workload.file: {TRACE_FILE}: is not there" in missing.err
    made_up_trace(tmp_path, 4)
    assert call("sweep", "trace-load", "--out", "there", "--workers", 1).code == 0
    other = (tmp_path / TRACE_FILE).rename(tmp_path / "other.csv")
    given = call(
        *("sweep", "trace-load", "--set", f"workload.file={other}"),
        *("--out", "other", "--workers", 1),
    )
    assert given.code == 0
    assert "21 points, 0 failed" in given.out
