"""Prefill: which prompt tokens go into the next prefill forward."""

import numpy as np

from simulator.schedule import IntArray


def next_forward(left_tokens: IntArray, *, chunk_tokens: int | None, batch_tokens: int) -> IntArray:
    """Tokens of each request in the next forward, of the *left_tokens* that each still needs.

    At most *chunk_tokens* of a request and *batch_tokens* together. Requests are served in
    order; one that does not fit in the forward any more is cut there.
    """
    wanted = np.minimum(left_tokens, chunk_tokens) if chunk_tokens else left_tokens
    before = np.cumsum(wanted) - wanted
    query: IntArray = np.clip(batch_tokens - before, 0, wanted)
    return query
