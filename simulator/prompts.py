"""Prompts: which of their tokens go into the next forward, and what that asks of a pass."""

from collections.abc import Iterable, Sequence

import numpy as np

from simulator.deployment import Deployment
from simulator.schedule import N_LOADS, IntArray, Pass, loads

Chunk = tuple[int, int, int]
"""Of a prompt in a forward: tokens, those in the cache before, output tokens that it emits."""


def next_tokens(
    left_tokens: Iterable[int], *, chunk_tokens: int | None, budget_tokens: int
) -> list[int]:
    """Tokens of each request in the next forward, of the *left_tokens* that each still needs.

    At most *chunk_tokens* of a request and *budget_tokens* together. Requests are served in
    order; one that does not fit in the forward any more is cut there.
    """
    taken = []
    for left in left_tokens:
        tokens = min(left, budget_tokens, chunk_tokens or left)
        budget_tokens -= tokens
        taken.append(tokens)
    return taken


def chunk_loads(chunks: Sequence[Chunk]) -> IntArray:
    """[6, chunks, 1] of a pass over *chunks*: queries, context, LM-head rows where it emits."""
    made = np.zeros((N_LOADS, len(chunks), 1), dtype=np.int64)
    made[:3, :, 0] = np.array(chunks, dtype=np.int64).T
    return made


def emitting(chunks: Sequence[Chunk]) -> int:
    """How many of *chunks* emit something."""
    return sum(first > 0 for _, _, first in chunks)


def prefill_passes(deployment: Deployment, chunks: Sequence[Chunk]) -> tuple[list[Pass], IntArray]:
    """The target's pass, and the drafter's, which takes in the target's features; loads of both.

    Loads are [passes, 6, chunks, 1].
    """
    target = chunk_loads(chunks)
    passes, stacked = [Pass("prefill", loads(1, query=0, context=0))], [target]
    drafter = deployment.drafter
    if drafter is not None:
        query, context, _, zero, _, _ = target
        through = query if drafter.kind == "eagle3" else zero
        stacked.append(np.stack([through, context, zero, zero, query, zero]))
        kind = deployment.policy.USES.drafter or ""
        passes.append(Pass("prefill", passes[0].loads, stack=kind))
    return passes, np.stack(stacked)
