"""Random tensors that do not depend on the order of the tests."""

import pytest


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed torch before each test, where it is installed."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
