"""What a captured trace of blocks tells: tokens per forward, blocks, and their local steps."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rich.table import Table

from reports.terminal import BARS, MOST_ROWS, bar, left_out, table
from reports.units import percent

DEFINITIONS = {
    "decode": "without prefill",
    "denoise": "without prefill and forwards that only store",
    "all": "with prefill (Diffulex)",
    "dinfer": "mean over batches, slowest row (dInfer)",
}
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}


def header(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The forwards, by kind."""
    kinds = ("prefill_forwards", "denoise_forwards", "store_forwards")
    prefill, denoise, store = (trace["counts"][kind] for kind in kinds)
    yield "forwards", f"{prefill} prefill, {denoise} denoising, {store} only storing"


def tables(found: Mapping[str, Any]) -> Iterator[Table | str]:
    """Tokens per forward by every definition, the blocks, and the curves by local step."""
    per_forward = found["tokens_per_forward_by_definition"]
    rows = [(words, f"{per_forward[name]:.3f}") for name, words in DEFINITIONS.items()]
    yield table("Tokens per forward", ("", ""), rows)
    yield table("Blocks", ("", ""), _blocks(found))
    steps = found["local_steps"]
    columns = ("local step", "blocks", "ready", BARS, "revealed")
    title = "Blocks that still have masks: their masks that are ready, and tokens revealed"
    yield table(title, columns, _local_steps(steps))
    yield from left_out(len(steps["step"]), "local steps")


def _blocks(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    per_block = found["forwards_per_block"]
    if per_block["mean"] is not None:
        yield "forwards of a block, mean", f"{per_block['mean']:.2f}"
        forwards = np.repeat(
            list(map(int, per_block["blocks"])), list(per_block["blocks"].values())
        )
        for words, level in QUANTILES.items():
            quantile = np.quantile(forwards, level, method="inverted_cdf")
            yield f"forwards of a block, {words}", f"{quantile:.0f}"
    yield "live blocks of a decode forward", f"{found['blocks_live']:.2f}"
    yield "decode forwards with several", percent(found["overlap"])
    yield "slots that hold dummies", percent(found["padded_share"])
    yield "query slots an output token", f"{found['query_slots_per_output_token']:.1f}"
    yield "edits of a request", f"{found['edits_per_request']:.2f}"


def _local_steps(steps: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    rows = zip(*(steps[name] for name in ("step", "blocks", "readiness", "revealed")), strict=True)
    for step, blocks, readiness, revealed in list(rows)[:MOST_ROWS]:
        yield str(step), str(blocks), percent(readiness), bar(readiness), f"{revealed:.2f}"
