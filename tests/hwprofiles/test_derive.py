"""The refitting: parameters recovered, points held out, documents written, mistakes reported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles import HardwareProfile
from hwprofiles.derive import __main__ as command
from hwprofiles.fitting import all_reduce
from hwprofiles.fitting.document import document, number, write
from hwprofiles.fitting.judging import held_out, residual
from hwprofiles.fitting.search import Search, fit, significant

# Another linear-algebra library may end a fit a hair elsewhere.
REFIT_TOLERANCE = 2e-3


def test_fit_recovers_parameters_through_spikes(profile: HardwareProfile) -> None:
    """Exact times with every tenth point trebled give back the curve that made them."""
    truth = replace(profile.kernels.elementwise, launch_s=3e-6, memory_bytes_per_s=2e12)
    moved = np.geomspace(1e3, 1e9, 200)
    spiked = truth.time(moved).seconds * np.where(np.arange(200) % 10 == 0, 3.0, 1.0)
    found = fit(
        profile.kernels.elementwise,
        {
            "launch_s": Search(1e-6, 1e-7, 1e-5),
            "memory_bytes_per_s": Search(4e12, 1e12, 6e12),
        },
        predict=lambda curve: curve.time(moved).seconds,
        measured_s=spiked,
    )
    assert found.launch_s == pytest.approx(3e-6, rel=0.02)
    assert found.memory_bytes_per_s == pytest.approx(2e12, rel=0.02)


def test_held_out_rows_go_by_shape_and_not_by_order() -> None:
    """All rows of a shape are held out or none, whatever the order; about one shape in six."""
    table = pd.DataFrame(
        [(n, k, m) for n in range(30) for k in range(30) for m in range(3)], columns=["n", "k", "m"]
    )
    chosen = table.assign(out=held_out(table, ["n", "k"], one_in=6))
    assert chosen.groupby(["n", "k"])["out"].nunique().eq(1).all()
    assert 0.1 < chosen["out"].mean() < 0.25
    shuffled = table.sample(frac=1.0, random_state=7)
    assert (chosen["out"].loc[shuffled.index] == held_out(shuffled, ["n", "k"], one_in=6)).all()


def test_residual_by_hand() -> None:
    """Errors of 0, 10, 20, 30 and 50 %: median 20 %, 90th percentile 42 %."""
    found = residual([1.0, 1.1, 0.8, 1.3, 1.5], [1.0] * 5)
    assert (found.median, found.p90, found.points) == (0.2, 0.42, 5)


def test_a_disturbed_time_gives_way_to_a_larger_message() -> None:
    """Interference only adds: 9 us for the middle message cannot be when a longer one takes 2."""
    table = all_reduce.message_table(np.array([1.0, 2.0, 4.0]), np.array([1e-6, 9e-6, 2e-6]))
    assert table.seconds == [1e-6, 2e-6, 2e-6]


@given(st.floats(min_value=1e-12, max_value=1e18))
def test_written_numbers_are_read_as_the_same_floats(value: float) -> None:
    """To the digits kept, and never as text or whole numbers."""
    kept = significant(value)
    read = yaml.safe_load(number(kept))
    assert isinstance(read, float)
    assert read == kept


def test_a_document_reads_back_as_the_profile(profile: HardwareProfile) -> None:
    """What is written validates into an equal profile."""
    read = TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(document(profile)))
    assert read == profile


def test_writing_leaves_no_draft_behind(tmp_path: Path) -> None:
    """The new text is in place, the folder made, and nothing else is in it."""
    path = tmp_path / "new" / "a.yaml"
    write(path, "old")
    write(path, "new")
    assert [(p.name, p.read_text()) for p in path.parent.iterdir()] == [("a.yaml", "new")]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Exit 1 and the path, as a user sees it: no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "hwprofiles.derive", "--measured", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(hwprofiles.__file__).parents[1],
    )
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    """Exit 1 and the table's path; nothing is written."""
    out = tmp_path / "out"
    done = CliRunner().invoke(command.main, ["--measured", str(tmp_path), "--out", str(out)])
    assert done.exit_code == 1
    assert str(tmp_path / "gemm.csv") in done.output
    assert not out.exists()


def assert_same(shipped: Any, made: Any, path: str = "") -> None:
    """Two documents agree, their numbers within the tolerance of a refit."""
    if isinstance(shipped, dict):
        assert shipped.keys() == made.keys(), path
        for key in shipped:
            assert_same(shipped[key], made[key], f"{path}.{key}")
    elif isinstance(shipped, list):
        assert len(shipped) == len(made), path
        for index, pair in enumerate(zip(shipped, made, strict=True)):
            assert_same(*pair, f"{path}.{index}")
    elif isinstance(shipped, float):
        assert made == pytest.approx(shipped, rel=REFIT_TOLERANCE, abs=REFIT_TOLERANCE / 10), path
        assert (made == 0) == (shipped == 0), path
        assert made == 0 or abs(made / shipped - 1) < 10 * REFIT_TOLERANCE, path
    else:
        assert shipped == made, path


def test_refitting_gives_the_shipped_numbers(measured: Path, tmp_path: Path) -> None:
    """The shipped profiles come from the measured tables and from nothing else."""
    done = CliRunner().invoke(command.main, ["--measured", str(measured), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["h100-sxm.yaml", "h200-sxm.yaml"]
    for name in names:
        shipped, made = (
            yaml.safe_load((folder / name).read_text()) for folder in (hwprofiles.DATA, tmp_path)
        )
        assert_same(shipped, made, name)
