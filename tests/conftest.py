"""Options of the whole suite."""

import pytest
from hypothesis import HealthCheck, settings

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
