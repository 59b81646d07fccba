"""A few tiny scenarios with all their metrics; rewritten by `pytest --refresh-goldens` only."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.deployment import Deployment, build
from simulator.engine import simulate
from simulator.metrics import summarise
from tests.laws.checks import LAWS
from tests.strategies import simulated

HERE = Path(__file__).parent
NAMES = ("ar", "uno-linear", "single-block")


def golden(name: str) -> Deployment:
    """The golden scenario on the hardware of the goldens."""
    document = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    return build(document | {"hardware": str(HERE / "hardware.yaml")}, name)


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested metrics as one level of dotted names."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {name: value}
    parts = [flat(part, f"{name}.{key}" if name else key) for key, part in value.items()]
    return {key: number for part in parts for key, number in part.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_metrics_are_as_they_were(name: str, pytestconfig: pytest.Config) -> None:
    """Every metric of the scenario is what the reviewed file says, to rounding."""
    metrics = summarise(simulate(golden(name)).records)
    file = HERE / f"{name}.json"
    if pytestconfig.getoption("--refresh-goldens"):
        file.write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")

    found, expected = flat(metrics), flat(json.loads(file.read_text(encoding="utf-8")))

    assert found.keys() == expected.keys()
    for metric, value in expected.items():
        is_number = isinstance(value, int | float)
        assert found[metric] == (pytest.approx(value, rel=1e-9) if is_number else value), metric


@pytest.mark.parametrize("name", NAMES)
def test_goldens_keep_the_laws(name: str) -> None:
    """What is recorded is no run that loses a token or a request."""
    run = simulated(golden(name))
    for law in LAWS:
        law(run)
