"""Search: the same points whatever happens between, good ones, and none that may not be."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.documents import DocumentError
from simulator.execution.pool import pool_of
from simulator.sweep.expansion import Point
from simulator.sweep.folder import journal_of
from simulator.sweep.reading import Sweep
from simulator.sweep.sweep import run_points
from simulator.sweep.table import failed
from tests.simulator.sweep.points import sweep_of

pytest.importorskip("optuna")

ROOT = Path(__file__).parents[3]
RATE, SPEED = "output_tokens_per_s_per_gpu", "output_tokens_per_s_per_request"
FIELDS: dict[str, Any] = {
    "decode.block": {"low": 1, "high": 40},
    "workload.concurrency": {"low": 1, "high": 64, "log": True},
}
OBJECTIVES = {RATE: "maximize", SPEED: "maximize"}
Row = dict[str, Any]
Outcome = Callable[[Mapping[str, Any]], Row]


def searched(folder: Path, *, trials: int = 24, fields: Any = None, **others: Any) -> Sweep:
    """A sweep that searches the small scenario; `search__seed` is a field of the search."""
    plan = {"trials": trials, "per_round": 8, "fields": fields or FIELDS, "objectives": OBJECTIVES}
    plan |= {k.removeprefix("search__"): v for k, v in others.items() if "__" in k}
    return sweep_of(folder, search=plan, **{k: v for k, v in others.items() if "__" not in k})


def bowl(settings: Mapping[str, Any]) -> Row:
    """Two objectives that pull a point to block 10 and to block 20; users cost a little."""
    block, users = settings["decode.block"], settings["workload.concurrency"]
    cost = users / 100
    return {"status": "ok", RATE: -((block - 10) ** 2) - cost, SPEED: -((block - 20) ** 2) - cost}


def rounds_of(sweep: Sweep, outcome: Outcome) -> list[list[Point]]:
    """The rounds of a search whose points come to *outcome*."""
    batches = sweep.source.batches()
    found = [list(next(batches))]
    while True:
        try:
            found.append(list(batches.send([outcome(point.settings) for point in found[-1]])))
        except StopIteration:
            return found


def points_of(sweep: Sweep, outcome: Outcome = bowl) -> list[Point]:
    return [point for points in rounds_of(sweep, outcome) for point in points]


def unbeaten(rows: Sequence[Row]) -> set[tuple[Any, Any]]:
    """The objectives of the rows than which no other is better in one and as good in both."""
    pairs = {(row[RATE], row[SPEED]) for row in rows if row["status"] == "ok"}
    return {
        (a, b)
        for a, b in pairs
        if not any(c >= a and d >= b and (c, d) != (a, b) for c, d in pairs)
    }


def test_the_seed_decides(tmp_path: Path) -> None:
    """The same seed asks for the same points, another one for others."""
    first, again, other = (
        [dict(p.settings) for p in points_of(searched(tmp_path, search__seed=seed))]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_rounds_have_their_size_and_indices_go_on(tmp_path: Path) -> None:
    """20 trials in rounds of 8 are 8, 8 and 4; indices count through; no point comes twice."""
    rounds = rounds_of(searched(tmp_path, trials=20), bowl)
    assert [len(points) for points in rounds] == [8, 8, 4]
    points = [point for each in rounds for point in each]
    assert [point.index for point in points] == list(range(20))
    assert len({str(dict(point.settings)) for point in points}) == 20


def test_a_search_goes_where_it_is_better(tmp_path: Path) -> None:
    """Blind, 8 of the last 30 trials would lie between the best blocks, 10 to 20 of 40."""
    later = points_of(searched(tmp_path, trials=60))[30:]
    between = [point for point in later if 10 <= point.settings["decode.block"] <= 20]
    assert len(between) > 15


def test_one_objective_is_enough(tmp_path: Path) -> None:
    """The least of a sum of squares on 40 blocks is found within a unit by 30 trials."""
    sweep = searched(tmp_path, trials=30, search__objectives={SPEED: "maximize"})
    best = max(points_of(sweep), key=lambda point: float(str(bowl(point.settings)[SPEED])))
    assert abs(best.settings["decode.block"] - 20) <= 1


def test_minimize_is_the_other_way_round(tmp_path: Path) -> None:
    """Signs and directions turned together ask for the same points."""

    def turned(settings: Mapping[str, Any]) -> Row:
        row = bowl(settings)
        return {"status": "ok"} | {name: -float(str(row[name])) for name in OBJECTIVES}

    least = searched(tmp_path, search__objectives=dict.fromkeys(OBJECTIVES, "minimize"))
    most = points_of(searched(tmp_path), bowl)
    assert [p.settings for p in points_of(least, turned)] == [p.settings for p in most]


def test_constraints_are_kept(tmp_path: Path) -> None:
    """Every point keeps the constraint, and there are as many as were asked for."""
    points = points_of(searched(tmp_path, where=["block + concurrency <= 20", "block != 7"]))
    assert len(points) == 24
    for point in points:
        block, users = point.settings["decode.block"], point.settings["workload.concurrency"]
        assert block + users <= 20
        assert block != 7


def test_a_space_that_is_used_up_ends_the_search(tmp_path: Path) -> None:
    """Of 12 combinations 9 keep the constraint; each comes once, although 50 are asked for."""
    fields = {"decode.block": [2, 4, 8], "workload.concurrency": [1, 2, 3, 4]}
    sweep = searched(tmp_path, trials=50, fields=fields, where=["concurrency < 4"])
    points = points_of(sweep)
    found = [(p.settings["decode.block"], p.settings["workload.concurrency"]) for p in points]
    assert sorted(found) == [(block, users) for block in (2, 4, 8) for users in (1, 2, 3)]


def test_no_point_at_all_is_told(tmp_path: Path) -> None:
    """A constraint that nothing keeps is a mistake, found before anything runs."""
    with pytest.raises(DocumentError, match="no point that keeps every constraint"):
        next(searched(tmp_path, where=["block > 100"]).source.batches())


def test_a_constraint_that_cannot_be_told_is_told_before(tmp_path: Path) -> None:
    """A field that some points' policy lacks is to be guarded, as in a grid."""
    fields = {"decode.policy": ["ar", "uno-linear"], "workload.concurrency": [1, 2]}
    with pytest.raises(DocumentError, match=r"guard it: A if B"):
        searched(tmp_path, fields=fields, where=["tree_size < 5"])


def test_repeats_of_a_trial_stand_together(tmp_path: Path) -> None:
    """Three seeds a trial: three points, alike but for the seed."""
    rounds = rounds_of(searched(tmp_path, trials=10, repeat=3), bowl)
    assert [len(points) for points in rounds] == [24, 6]
    points = [point for each in rounds for point in each]
    for first in range(0, 30, 3):
        own = points[first : first + 3]
        assert [point.settings["seed"] for point in own] == [0, 1, 2]
        assert len({point.settings["decode.block"] for point in own}) == 1


def test_the_mean_of_repeats_counts(tmp_path: Path) -> None:
    """Noise that cancels over the seeds changes nothing."""

    def noisy(settings: Mapping[str, Any]) -> Row:
        shift = {0: -256.0, 1: 0.0, 2: 256.0}[settings["seed"]]
        return {"status": "ok"} | {name: rounded(settings, name) + shift for name in OBJECTIVES}

    def still(settings: Mapping[str, Any]) -> Row:
        return {"status": "ok"} | {name: rounded(settings, name) for name in OBJECTIVES}

    def rounded(settings: Mapping[str, Any], name: str) -> float:
        return float(round(float(str(bowl(settings)[name]))))

    sweep = searched(tmp_path, repeat=3)
    noisily = [point.settings for point in points_of(sweep, noisy)]
    assert noisily == [point.settings for point in points_of(sweep, still)]


@pytest.mark.parametrize(
    "nothing", [failed("it does not fit"), {"status": "ok", RATE: None, SPEED: 1.0}]
)
def test_failed_points_are_no_hindrance(tmp_path: Path, nothing: Row) -> None:
    """Where every other block fails, the rest is searched as ever; all failing is borne too."""

    def half(settings: Mapping[str, Any]) -> Row:
        return bowl(settings) if settings["decode.block"] % 2 else nothing

    assert len(points_of(searched(tmp_path), half)) == 24
    assert len(points_of(searched(tmp_path), lambda _: nothing)) == 24


def test_fields_of_other_policies_are_left_out(tmp_path: Path) -> None:
    """A tree size is searched beside policies without trees, and set only where there is one."""
    fields = {
        "decode": [{"policy": "ar"}, {"policy": "uno-tree"}],
        "decode.block": [4, 8],
        "decode.tree_size": [16, 32],
    }
    points = points_of(searched(tmp_path, fields=fields), lambda _: failed("untried"))
    found = {
        (
            p.settings["decode"]["policy"],
            p.settings.get("decode.block"),
            p.settings.get("decode.tree_size"),
        )
        for p in points
    }
    trees = {("uno-tree", block, size) for block in (4, 8) for size in (16, 32)}
    assert found == {("ar", None, None)} | trees
    assert len(points) == len(found)


def test_what_ran_decides_and_not_when(tmp_path: Path) -> None:
    """One worker, two, and a journal with rows in any order: the same rows on disk at the end."""
    fields = {"decode.block": {"low": 2, "high": 12}, "workload.concurrency": [1, 2, 4]}
    sweep = searched(tmp_path, trials=12, fields=fields, search__per_round=4)
    found = []
    for number, workers in enumerate((1, 2, 1)):
        folder = tmp_path / str(number)
        if number == 2:  # half of the first one's rows, turned about
            with journal_of(folder, sweep, resume=False):
                pass
            lines = (tmp_path / "0" / "finished.jsonl").read_text().splitlines(keepends=True)
            lines = lines[1::2] + lines[::-2]
            (folder / "finished.jsonl").write_text("".join(lines[:6]))
        with journal_of(folder, sweep, resume=True) as journal, pool_of(workers) as pool:
            run_points(sweep, journal, pool)
            found.append([journal.row(point) for point in journal.points])
    assert len(found[0]) == 12
    assert found[0] == found[1] == found[2]


def test_another_optimizer_does_not_go_on(tmp_path: Path) -> None:
    """Another version of Optuna may ask for other points than those on disk."""
    sweep, folder = searched(tmp_path), tmp_path / "out"
    with journal_of(folder, sweep, resume=False):
        pass
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"optuna": "4.0.0"}))
    with (
        pytest.raises(DocumentError, match=r"was searched by optuna 4\.0\.0, this is"),
        journal_of(folder, sweep, resume=True),
    ):
        pass


def test_its_front_is_on_the_front_of_the_whole_grid(tmp_path: Path) -> None:
    """Real runs of 24 of 40 points: most of the unbeaten ones, and nothing that is no point."""
    values = {"decode.block": [2, 4, 6, 8, 16], "workload.concurrency": [1, 2, 4, 8]}
    base = {"hardware": ["h100-sxm", "h200-sxm"]}
    rows = []
    for name, fields in (("grid", {"grid": values | base}), ("search", {})):
        sweep = sweep_of(tmp_path, **fields) if fields else searched(tmp_path, fields=values | base)
        folder = tmp_path / name
        with journal_of(folder, sweep, resume=False) as journal, pool_of(1) as pool:
            run_points(sweep, journal, pool)
            rows.append([journal.row(point) for point in journal.points])
    whole, found = map(unbeaten, rows)
    assert (len(rows[0]), len(rows[1])) == (40, 24)
    assert len(found & whole) >= 0.75 * len(whole)
    every = {(row[RATE], row[SPEED]) for row in rows[0]}
    assert found <= every


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objectives": {"latency_p99": "minimize"}}, "did you mean latency_p99_s"),
        ({"objectives": {}}, "objectives"),
        ({"objectives": {SPEED: "max"}}, "'maximize' or 'minimize'"),
        ({"objectives": {"cost_per_million_output_tokens": "minimize"}}, "needs gpu_hour_cost"),
        ({"fields": {"decode.blok": [1]}}, "did you mean decode.block"),
        ({"fields": {"decode.block": []}}, "at least one"),
        ({"fields": {"decode.block": {"low": 4, "high": 2}}}, "low is at most high"),
        ({"fields": {"decode.block": {"low": 0, "high": 2, "log": True}}}, "log needs low"),
        ({"trials": 0}, "search.trials"),
        ({"trials": 10**7}, "at most 1,000,000"),
        ({"per_round": 0}, "search.per_round"),
    ],
)
def test_a_search_that_cannot_be_is_told(tmp_path: Path, change: Any, words: str) -> None:
    """Before anything runs, with names that are near."""
    with pytest.raises(DocumentError) as caught:
        searched(tmp_path, **{f"search__{name}": value for name, value in change.items()})
    assert words in str(caught.value)


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one, and asks for its first round."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")
    example = re.findall(r"```yaml\n(# search\.yaml.*?)```", page, re.DOTALL)[0]
    sweep = sweep_of(tmp_path, **yaml.safe_load(example))
    assert len(sweep.source) == 200
    assert len(next(sweep.source.batches())) == 16


def test_a_plain_install_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna is an extra."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DocumentError, match=r"pip install 'blockcast\[search\]'"):
        searched(tmp_path)
