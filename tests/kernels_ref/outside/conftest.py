"""Checkpoints that transformers has made, each saved once."""

from pathlib import Path
from typing import Any

import pytest

Made = tuple[Path, Any]
"""A folder and the model that was saved to it."""


@pytest.fixture(scope="session")
def sdar(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """SDAR in float64."""
    import torch

    from tests.kernels_ref.outside.tiny import SDAR, saved, sdar_model

    model = sdar_model(torch.float64)
    return saved(model, tmp_path_factory.mktemp("sdar"), SDAR), model


@pytest.fixture(scope="session")
def llada2(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """LLaDA2 in float64."""
    import torch

    from tests.kernels_ref.outside.tiny import LLADA2, llada2_model, saved

    model = llada2_model(torch.float64)
    return saved(model, tmp_path_factory.mktemp("llada2"), LLADA2), model
