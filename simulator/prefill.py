"""Prefill: how the prompts of newly admitted requests are cut into forwards."""

from dataclasses import dataclass

import numpy as np

from simulator.schedule import IntArray


@dataclass(frozen=True)
class PrefillPass:
    """One prefill forward: per request its query tokens, tokens already cached, and if it ends."""

    query: IntArray
    context: IntArray
    ends: IntArray
    """1 where the prompt is complete after this forward."""


def prefill_passes(
    prompt_tokens: IntArray, *, chunk_tokens: int | None, batch_tokens: int
) -> list[PrefillPass]:
    """Cut prompts into forwards of at most *chunk_tokens* each and *batch_tokens* together.

    Requests are served in order; one that does not fit in a forward any more is cut there.
    """
    done = np.zeros_like(prompt_tokens)
    passes = []
    while (left := prompt_tokens - done).any():
        wanted = np.minimum(left, chunk_tokens) if chunk_tokens else left
        before = np.cumsum(wanted) - wanted
        query = np.clip(batch_tokens - before, 0, wanted)
        passes.append(PrefillPass(query, done.copy(), ((query > 0) & (query == left)).astype(int)))
        done += query
    return passes
