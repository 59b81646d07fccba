"""Statistics of a trace of blocks: tokens per forward by every definition, and what made them.

A decode forward is one that is no prefill. A fused store denoises too, so it counts as denoising.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from traces.block_trace import BlockTrace
from traces.columns import BoolArray, IntArray, among, entries, lengths, numbers
from traces.verdicts import accuracy


def summary(trace: BlockTrace) -> dict[str, Any]:
    """All of the statistics, as what JSON holds; None where there is nothing to take a mean of."""
    counts = trace.manifest.counts
    steps = trace.steps
    decode = ~among(steps, "kind", "prefill")
    live = (numbers(steps, "window_right") - numbers(steps, "window_left"))[decode]
    definitions = tokens_per_forward(trace.requests)
    return {
        "requests": counts.requests,
        "output_tokens": counts.output_tokens,
        "forwards": steps.num_rows,
        "batch_forwards": counts.batch_forwards,
        "tokens_per_forward": definitions["decode"],
        "tokens_per_forward_by_definition": definitions,
        **accuracy(trace.requests),
        "forwards_per_block": forwards_per_block(trace.blocks),
        "local_steps": by_local_step(trace.blocks),
        "edits_per_request": float(numbers(steps, "edited").sum() / counts.requests),
        "blocks_live": float(live.mean()),
        "overlap": float((live > 1).mean()),
        "padded_share": padded_share(steps, decode),
        "query_slots_per_output_token": query_slots_per_output_token(trace),
    }


def query_slots_per_output_token(trace: BlockTrace) -> float:
    """Slots of all forwards, prefill and dummies included, per output token; 0 without any."""
    slots = int(numbers(trace.steps, "padded_tokens").sum())
    return (
        slots / trace.manifest.counts.output_tokens if trace.manifest.counts.output_tokens else 0.0
    )


def tokens_per_forward(requests: pa.Table) -> dict[str, float]:
    """Output tokens per forward of a request, by definition; a request has a forward at least.

    decode: without prefill; denoise: without forwards that only store either; all: with prefill, as
    Diffulex counts; each is a total over a total. dinfer: see `tokens_per_batch_forward`.
    """
    tokens, prefill, denoise, store, batch = (
        numbers(requests, name)
        for name in (
            "output_tokens",
            "prefill_forwards",
            "denoise_forwards",
            "store_forwards",
            "batch",
        )
    )
    total = tokens.sum()
    return {
        "decode": float(total / (denoise + store).sum()),
        "denoise": float(total / denoise.sum()),
        "all": float(total / (prefill + denoise + store).sum()),
        "dinfer": tokens_per_batch_forward(batch, tokens, prefill, denoise + store),
    }


def tokens_per_batch_forward(
    batch: IntArray, tokens: IntArray, prefill: IntArray, decode: IntArray
) -> float:
    """Mean over batches of tokens / forwards of the batch / its rows: the harness of dInfer.

    A batch has the decode forwards of its slowest row, and one prefill if any row has. All
    arguments are [requests].
    """
    names, of = np.unique(batch, return_inverse=True)
    slowest = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(slowest, of, decode)
    prefilled = np.bincount(of, prefill) > 0
    forwards = slowest + prefilled
    return float(np.mean(np.bincount(of, tokens) / forwards / np.bincount(of)))


def forwards_per_block(blocks: pa.Table) -> dict[str, Any]:
    """Forwards that updated a block, of the blocks that retired: mean and blocks by forwards."""
    updates = lengths(blocks, "masked")[numbers(blocks, "retired") >= 0]
    values, times = np.unique(updates, return_counts=True)
    return {
        "mean": float(updates.mean()) if len(updates) else None,
        "blocks": dict(zip(map(str, values.tolist()), times.tolist(), strict=True)),
    }


def by_local_step(blocks: pa.Table) -> dict[str, list[Any]]:
    """Per local step, counted from 0: blocks that still have masks, and of those the means.

    Readiness is the share of their masks that are ready (FlowBlock, equation 2); revealed is in
    tokens.
    """
    step = local_steps(lengths(blocks, "masked"))
    masked, ready, revealed = (entries(blocks, name) for name in ("masked", "ready", "revealed"))
    there = masked > 0
    steps, of, n_blocks = np.unique(step[there], return_inverse=True, return_counts=True)
    readiness = np.bincount(of, ready[there] / masked[there]) / n_blocks
    return {
        "step": steps.tolist(),
        "blocks": n_blocks.tolist(),
        "readiness": readiness.tolist(),
        "revealed": (np.bincount(of, revealed[there]) / n_blocks).tolist(),
    }


def local_steps(length: IntArray) -> IntArray:
    """Of every entry of lists of these lengths its place in its own list, [sum of lengths]."""
    ends = np.cumsum(length)
    return np.arange(length.sum()) - np.repeat(ends - length, length)


def padded_share(steps: pa.Table, which: BoolArray) -> float:
    """Share of the slots of *which* forwards that held dummies."""
    queries, slots = (
        numbers(steps, name)[which].sum() for name in ("query_tokens", "padded_tokens")
    )
    return float(1.0 - queries / slots)
