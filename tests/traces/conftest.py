"""What the tests of traces share: every shipped manifest, and a small one made by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from traces.manifest import AcceptanceCell, Manifest

BASE = Manifest(
    format_version=1,
    name="hand-made",
    description="By hand.",
    kind="synthetic",
    policies=("dflash",),
    model="none",
    temperature=0.0,
    sampling="greedy",
    source="this test",
    guaranteed_tokens=1,
    drafts_per_block_offset=0,
    acceptance=(AcceptanceCell("Average", 4, 2.0),),
)


@pytest.fixture
def made() -> Callable[..., Manifest]:
    """Makes a manifest with one-token steps and one draft per block position, fields replaced."""

    def make(*cells: tuple[int, int | None, float], **changes: Any) -> Manifest:
        rows = tuple(AcceptanceCell("Average", block, tau, size) for block, size, tau in cells)
        return dataclasses.replace(BASE, **{"acceptance": rows or BASE.acceptance, **changes})

    return make
