"""Options of the whole suite."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Every process of the suite takes a core; torch would take all of them in each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# How long an example takes says how busy the machine is, nothing about the program.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Goldens are rewritten only when asked for, so that a change is a diff to review."""
    parser.addoption(
        "--refresh-goldens", action="store_true", help="Rewrite the stored metrics of tests/golden."
    )
