"""RequestBlock: some requests of a file, in its order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traces.requests.text_column import IntArray

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RequestBlock:
    """Requests [rows]. Without arrivals these are zeros; without prefixes there is no list."""

    arrival_s: FloatArray
    """Seconds since the file's first row."""
    prompt_tokens: IntArray
    output_tokens: IntArray
    prefixes: list[tuple[int, ...]] | None = None
    """Identities of each prompt's leading blocks."""
    skipped_rows: int = 0
    """Rows with a length of zero that were left out."""
    moved_rows: int = 0
    """Rows that were before the one above them, where the file was sorted."""

    @property
    def n_requests(self) -> int:
        """Requests in it."""
        return len(self.prompt_tokens)

    def taken(self, rows: Any) -> "RequestBlock":  # noqa: ANN401 (a slice, a mask or places)
        """The requests at *rows*."""
        kept = np.arange(self.n_requests)[rows]
        return replace(
            self,
            arrival_s=self.arrival_s[kept],
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            prefixes=None if self.prefixes is None else [self.prefixes[row] for row in kept],
        )


def joined(blocks: Sequence[RequestBlock]) -> RequestBlock:
    """One block of at least one."""
    prefixes = [prefix for block in blocks for prefix in block.prefixes or []]
    return RequestBlock(
        np.concatenate([block.arrival_s for block in blocks]),
        np.concatenate([block.prompt_tokens for block in blocks]),
        np.concatenate([block.output_tokens for block in blocks]),
        None if blocks[0].prefixes is None else prefixes,
        sum(block.skipped_rows for block in blocks),
        sum(block.moved_rows for block in blocks),
    )
