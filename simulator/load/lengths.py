"""Lengths drawn from a table, row by row with replacement."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from simulator.load.request_source import RequestSource
from simulator.load.streams import stream

IntArray = npt.NDArray[np.int64]
Lengths = tuple[IntArray, IntArray]
"""Prompt and output tokens of a chunk of requests."""


def drawn_lengths(table: RequestSource, seed: int) -> Iterator[Lengths]:
    """Endless chunks of rows of *table*, of which two whole columns are held (int32)."""
    parts = [
        np.stack([block.prompt_tokens, block.output_tokens]).astype(np.int32)
        for block, _ in table.blocks()
    ]
    rows = np.concatenate(parts, axis=1)
    for drawn in stream(seed, "lengths", lambda draws, n: draws.integers(rows.shape[1], size=n)):
        yield rows[0, drawn].astype(np.int64), rows[1, drawn].astype(np.int64)
