"""Sample: settings drawn at random, every field from a stream of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.sweep.design import Sample
from simulator.sweep.spaces import space_of


def drawn(sample: Sample) -> list[Mapping[str, Any]]:
    """The settings of every point; another field changes none of the others' draws.

    Raises ValueError for a space that is none.
    """
    columns = {
        field: _draws(space, sample.n, sample.seed, field) for field, space in sample.fields.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _draws(space: object, n: int, seed: int, field: str) -> list[Any]:
    generator = np.random.default_rng(np.random.SeedSequence([seed, *field.encode()]))
    checked = space_of(space)
    return [checked.draw(generator) for _ in range(n)]
