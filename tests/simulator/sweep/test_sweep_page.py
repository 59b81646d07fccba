"""The page about sweeps: its example is one, and what it tells of the table is so."""

import re
from pathlib import Path

import pytest
import yaml

from simulator.sweep.folder import TABLES
from tests.simulator.sweep.points import points_of, sweep_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")


def test_its_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file on the page: 2 GPUs x 3 loads x 3 policies x 3 seeds, less what is left out.

    Windows of 3 at 64 users break the constraint, once for each GPU and seed.
    """
    monkeypatch.chdir(ROOT)
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    sweep = sweep_of(tmp_path, **yaml.safe_load(example))
    assert len(points_of(sweep)) == 2 * 3 * 3 * 3 - 2 * 3
    assert list(sweep.fronts) == ["throughput-speed", "cost-latency"]


@pytest.mark.parametrize("name", TABLES)
def test_it_names_the_files(name: str) -> None:
    """Every file of the table is told of."""
    assert f"`{name}`" in PAGE
