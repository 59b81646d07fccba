"""Statistics of a trace of iterations: tokens per step and per forward, and how drafts fare.

A step is an iteration, a draft and its verification. Tokens are those behind the one that the
prefill samples, the end token included.
"""

from typing import Any

import numpy as np

from traces.columns import IntArray, flags, numbers
from traces.dependence import (
    clustered_standard_error,
    intraclass_correlation,
    lag_1_correlation,
)
from traces.iteration_trace import IterationTrace
from traces.uncut_iterations import UncutIterations, uncut_iterations
from traces.verdicts import accuracy, share


def summary(trace: IterationTrace) -> dict[str, Any]:
    """All of the statistics, as what JSON holds; None where there is nothing to take a mean of."""
    counts, uncut = trace.manifest.counts, uncut_iterations(trace)
    return {
        "requests": counts.requests,
        "output_tokens": counts.output_tokens,
        "iterations": counts.iterations,
        "iterations_uncut": len(uncut),
        "forwards": trace.steps.num_rows,
        "batch_forwards": counts.batch_forwards,
        **tokens_per_step(trace, uncut),
        "tokens_per_forward": tokens_per_forward(trace),
        "acceptance_by_position": uncut.survival.tolist(),
        "iterations_by_accepted": uncut.histogram.tolist() if len(uncut) else [],
        **extremes(uncut),
        "lag_1_correlation": lag_1_correlation(uncut.accepted, uncut.request),
        "intraclass_correlation": intraclass_correlation(uncut.accepted, uncut.request),
        "verify_nodes_per_output_token": verify_nodes_per_output_token(trace),
        **accuracy(trace.requests),
    }


def tokens_per_step(trace: IterationTrace, uncut: UncutIterations) -> dict[str, float | None]:
    """Tokens per step as papers count them, and as they reach the output.

    tokens_per_step is the mean of accepted and guaranteed tokens over *uncut* iterations, its
    standard error that of requests as clusters; with_cut takes the cut ones in, as they were
    before; kept is what iterations emitted, over all of them.
    """
    guaranteed, every = trace.manifest.guaranteed_tokens, trace.iterations
    mean = uncut.mean_accepted
    with_cut, kept = (_mean(numbers(every, name)) for name in ("accepted", "emitted"))
    return {
        "tokens_per_step": None if mean is None else guaranteed + mean,
        "tokens_per_step_standard_error": clustered_standard_error(uncut.accepted, uncut.request),
        "tokens_per_step_with_cut": None if with_cut is None else guaranteed + with_cut,
        "tokens_per_step_kept": kept,
    }


def tokens_per_forward(trace: IterationTrace) -> float | None:
    """Tokens that iterations emitted per forward that is no prefill: 1 for autoregression."""
    counts = trace.manifest.counts
    forwards = counts.draft_forwards + counts.verify_forwards
    return int(numbers(trace.iterations, "emitted").sum()) / forwards if forwards else None


def extremes(uncut: UncutIterations) -> dict[str, float | None]:
    """Shares of the iterations with drafts that accepted none of them, and the longest path."""
    drafting = uncut.drafted > 0
    none, every = uncut.accepted == 0, uncut.accepted == uncut.drafted
    return {"none_accepted": share(none[drafting]), "all_accepted": share(every[drafting])}


def verify_nodes_per_output_token(trace: IterationTrace) -> float | None:
    """Drafts that were verified per output token, those of cut iterations included."""
    tokens = trace.manifest.counts.output_tokens
    return int(numbers(trace.iterations, "nodes").sum()) / tokens if tokens else None


def truncated(trace: IterationTrace, block_tokens: int) -> float | None:
    """Tokens per step that a chain's *trace* would have had at a smaller block; None of nothing.

    The first drafts of a chain do not depend on those behind them, so each iteration accepts what
    it did, up to the drafts of the smaller block: the longest chain of the trace, less the
    difference of the blocks. Those count that the end of the output would not have cut. That steps
    of a smaller block begin elsewhere in the text is left out. Raises ValueError for a block that
    is no smaller one, and for trees, of which a prefix is not a smaller tree.
    """
    uncut, captured = uncut_iterations(trace), trace.manifest.block_tokens
    if not 1 <= block_tokens <= captured:
        rule = f"a trace at block {captured} is read at blocks 1 to {captured}, got {block_tokens}"
        raise ValueError(rule)
    if uncut.has_trees:
        rule = f"a chain is read at a smaller block, got the trees of {trace.manifest.policy}"
        raise ValueError(rule)
    every, guaranteed = trace.iterations, trace.manifest.guaranteed_tokens
    longest = int(numbers(every, "drafted").max(initial=0))
    drafts = max(0, longest - (captured - block_tokens))
    accepted = np.minimum(numbers(every, "accepted"), drafts)
    whole = ~flags(every, "cut") | (accepted + guaranteed <= numbers(every, "emitted"))
    mean = _mean(accepted[whole])
    return None if mean is None else guaranteed + mean


def _mean(values: IntArray) -> float | None:
    return float(values.mean()) if len(values) else None
