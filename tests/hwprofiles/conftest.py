"""The shipped profiles, and the folder of measured tables where there is one."""

import os
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles import HardwareProfile

ROOT = Path(__file__).parents[2]
NAMES = ("b200-sxm", "h100-sxm", "h200-sxm")


@pytest.fixture(scope="session", params=NAMES)
def profile(request: pytest.FixtureRequest) -> HardwareProfile:
    """Each shipped profile in turn."""
    text = (hwprofiles.DATA / f"{request.param}.yaml").read_text(encoding="utf-8")
    return TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))


@pytest.fixture(scope="session")
def measured() -> Path:
    """The folder of measured tables; skips the test where it is not there."""
    folder = (ROOT / os.environ.get("BLOCKCAST_SHARED", "../shared") / "measured").resolve()
    if not folder.is_dir():
        pytest.skip(f"no measured tables in {folder}")
    return folder
