"""Streams: random draws of a load by seed and name, in chunks, so that more change none before."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK_REQUESTS = 4096

Draw = Callable[[np.random.Generator, int], npt.NDArray[Any]]
"""So many independent draws of a generator."""


def stream(seed: int, name: str, draw: Draw) -> Iterator[npt.NDArray[Any]]:
    """Endless chunks of *draw*, each keyed by (seed, name, its number) and always drawn whole."""
    for chunk in count():
        key = np.random.SeedSequence([seed, *name.encode()], spawn_key=(chunk,))
        yield draw(np.random.default_rng(key), CHUNK_REQUESTS)
