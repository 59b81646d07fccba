"""Which points a sweep has, and in which order."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.documents import DocumentError
from tests.simulator.sweep.points import BASE, points_of, sweep_of, written

FIELDS = ("decode.block", "parallel.tp", "parallel.dp", "workload.concurrency")
VALUES = st.lists(st.integers(1, 64), min_size=1, max_size=3, unique=True)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    grid=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
    names=st.lists(st.text("abc", min_size=1), max_size=3),
    repeat=st.one_of(st.integers(1, 3), st.lists(st.integers(0, 9), min_size=1, unique=True)),
)
def test_the_product_in_order(
    tmp_path: Path, grid: dict[str, list[int]], names: list[str], repeat: int | list[int]
) -> None:
    """Points turn slowest, then the grid in the file's order, then the seeds."""
    entries = [{"name": name, "router": f"r{i}"} for i, name in enumerate(names)]
    sweep = sweep_of(tmp_path, grid=grid, points=entries, repeat=repeat)
    seeds = repeat if isinstance(repeat, list) else range(repeat)
    naive = [
        (
            entry.get("name", ""),
            {k: v for k, v in entry.items() if k != "name"}
            | dict(zip(grid, values, strict=True))
            | {"seed": seed},
        )
        for entry in entries or [{}]
        for values in itertools.product(*grid.values())
        for seed in seeds
    ]
    points = points_of(sweep)
    assert [(p.name, dict(p.settings)) for p in points] == naive
    assert [p.index for p in points] == list(range(len(naive)))
    assert len(sweep.source) == len(naive)


def test_seeds_go_on_from_the_scenarios_own(tmp_path: Path) -> None:
    """Three repeats of seed 7 are 7, 8 and 9."""
    sweep = sweep_of(tmp_path, scenario=BASE | {"seed": 7}, repeat=3)
    assert [point.settings["seed"] for point in points_of(sweep)] == [7, 8, 9]


def test_a_seed_of_a_point_is_its_own(tmp_path: Path) -> None:
    """Where the grid varies the seed, nothing overrides it."""
    sweep = sweep_of(tmp_path, grid={"seed": [5, 3]})
    assert [point.settings["seed"] for point in points_of(sweep)] == [5, 3]


def test_a_section_then_its_fields(tmp_path: Path) -> None:
    """A whole section replaces the scenario's, and a field of it comes on top."""
    grid = {"decode.block": [8, 16], "decode": [{"policy": "dflash", "tokens_per_step": 2.0}]}
    sweep = sweep_of(tmp_path, grid=grid)
    documents = [point.document(sweep.base) for point in points_of(sweep)]
    assert [each["decode"] for each in documents] == [
        {"policy": "dflash", "tokens_per_step": 2.0, "block": block} for block in (8, 16)
    ]
    assert set(sweep.varied) == {"decode.block", "decode.policy", "decode.tokens_per_step"}


def test_a_sample_is_within_its_spaces(tmp_path: Path) -> None:
    """Draws keep to lists, ends and steps; the same seed draws the same, another field no less."""
    fields = {
        "decode.block": {"low": 2, "high": 6, "step": 2},
        "decode.tokens_per_step": {"low": 1.0, "high": 4.0, "log": True},
        "hardware": ["h100-sxm", "h200-sxm"],
    }
    sweep = sweep_of(tmp_path, sample={"n": 200, "seed": 3, "fields": fields})
    drawn = [point.settings for point in points_of(sweep)]
    assert len(drawn) == 200
    assert {each["decode.block"] for each in drawn} == {2, 4, 6}
    assert {each["hardware"] for each in drawn} == {"h100-sxm", "h200-sxm"}
    paces = [each["decode.tokens_per_step"] for each in drawn]
    assert all(1.0 <= pace <= 4.0 for pace in paces)
    # Half of a log-uniform draw from 1 to 4 is below 2: within four standard errors of that.
    assert abs(sum(pace < 2.0 for pace in paces) - 100) < 4 * (200 * 0.25) ** 0.5
    fewer = {name: space for name, space in fields.items() if name != "hardware"}
    again = points_of(sweep_of(tmp_path, sample={"n": 200, "seed": 3, "fields": fewer}))
    assert [point.settings["decode.block"] for point in again] == [e["decode.block"] for e in drawn]


def refusal(folder: Path, **fields: Any) -> str:
    """Why the sweep is refused."""
    with pytest.raises(DocumentError) as refused:
        sweep_of(folder, **fields)
    return str(refused.value)


def test_a_billion_points_are_refused_with_their_size(tmp_path: Path) -> None:
    """The size and its factors are told, and nothing is enumerated."""
    grid = {name: list(range(1, 1001)) for name in FIELDS[:3]}
    told = refusal(tmp_path, grid=grid, repeat=2)
    assert "2,000,000,000 points" in told
    for part in ("1,000 (decode.block)", "1,000 (parallel.dp)", "2 (repeat)", "at most 1,000,000"):
        assert part in told
    assert "10,000,000,000 points" in refusal(
        tmp_path, sample={"n": 10_000_000_000, "fields": {"decode.block": [1]}}
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"grid": {"decode.windw": [1]}}, ["grid.decode.windw", "did you mean decode.window"]),
        ({"points": [{"decode": {"polcy": "ar"}}]}, ["points[0].decode.polcy", "decode.policy"]),
        ({"scenario": BASE | {"modle": "x"}}, ["scenario.modle", "did you mean model"]),
        ({"sample": {"n": 2, "fields": {"tp": [1]}}}, ["sample.fields.tp", "no field"]),
        ({"sample": {"n": 2, "fields": {"parallel.tp": 3}}}, ["sample.fields.parallel.tp", "low"]),
        ({"grid": {"parallel.tp": []}}, ["grid.parallel.tp", "at least 1"]),
        ({"grid": {"parallel.tp": [1, 2, 1]}}, ["grid.parallel.tp", "1 twice"]),
        ({"grid": {"seed": [1]}, "repeat": 2}, ["seed", "grid.seed and by repeat"]),
        (
            {"grid": {"parallel.tp": [1]}, "points": [{"parallel": {"tp": 2}}]},
            ["parallel.tp", "grid.parallel.tp and by points"],
        ),
        ({"repeat": [1, 1]}, ["a seed is repeated once"]),
        ({"repeat": 0}, ["repeat"]),
        ({"scenario": BASE | {"seed": "x"}}, ["scenario.seed", "integer"]),
        ({"where": ["tp > 5"]}, ["none of the 1 points keeps every constraint"]),
        ({"fronts": {"f": {"higher": ["speed"]}}}, ["fronts.f", "output_tokens_per_s"]),
        ({"fronts": {"f": {}}}, ["at least one column"]),
        ({"gpu_hour_cost": {"h300": 2.0}}, ["gpu_hour_cost", "h200-sxm"]),
        ({"gird": {}}, ["did you mean grid"]),
        ({"scenario": "nowhere.yaml"}, ["nowhere.yaml", "cannot be read"]),
    ],
)
def test_mistakes_are_told(tmp_path: Path, fields: dict[str, Any], words: list[str]) -> None:
    """Each is said where it is, before anything runs."""
    told = refusal(tmp_path, **fields)
    assert all(word in told for word in words), told


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Fields, constraints, fronts and sizes that are wrong come in one message."""
    told = refusal(
        tmp_path,
        grid={"decode.windw": [1]},
        where=["tp = 2", "polcy == ar"],
        fronts={"f": {"lower": ["speed"]}},
    )
    assert len(re.findall(r"^  ", told, flags=re.MULTILINE)) == 4


def test_a_scenario_beside_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is from where the program runs, and else from the sweep's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far").mkdir()
    beside = written(tmp_path / "far/scenario.yaml").read_text(encoding="utf-8")
    for text, block in ((beside, 4), (beside.replace("block: 4", "block: 8"), 8)):
        scenario = text.removeprefix("scenario:\n").replace("\n  ", "\n").lstrip()
        place = tmp_path / ("far/scenario.yaml" if block == 4 else "scenario.yaml")
        place.write_text(scenario, encoding="utf-8")
        sweep = sweep_of(tmp_path / "far", scenario="scenario.yaml")
        assert sweep.base["decode"]["block"] == block
