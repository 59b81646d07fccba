"""A captured trace of blocks for the terminal: how fast it decoded, how, and where it is from."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reports.terminal import console, pairs, table
from reports.units import percent

DEFINITIONS = {
    "decode": "without prefill",
    "denoise": "without prefill and forwards that only store",
    "all": "with prefill (Diffulex)",
    "dinfer": "mean over batches, slowest row (dInfer)",
}
# A curve of more local steps than these is told in full by --json.
MOST_STEPS = 32
BAR_WIDTH = 20
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}


def print_trace(trace: Mapping[str, Any]) -> None:
    """What decoded, tokens per forward, what the blocks did, accuracy, and provenance."""
    out = console()
    found = trace["derived"]
    out.print(f"{trace['name']}: {trace['description']}", soft_wrap=True)
    out.print(pairs(_header(trace)))
    out.print()
    per_forward = found["tokens_per_forward_by_definition"]
    rows = [(words, f"{per_forward[name]:.3f}") for name, words in DEFINITIONS.items()]
    out.print(table("Tokens per forward", ("", ""), rows))
    out.print(table("Blocks", ("", ""), _blocks(found)))
    steps = found["local_steps"]
    columns = ("local step", "blocks", "ready", "", "revealed")
    title = "Blocks that still have masks: their masks that are ready, and tokens revealed"
    out.print(table(title, columns, _local_steps(steps)))
    if (more := len(steps["step"]) - MOST_STEPS) > 0:
        out.print(f"{more} more local steps: --json has them\n")
    out.print(table("Accuracy", ("", ""), _accuracy(found)))
    out.print("Parameters", style="bold")
    out.print(pairs((name, _value(value)) for name, value in trace["parameters"].items()))
    out.print("\nProvenance", style="bold")
    out.print(pairs(_provenance(trace)))
    if trace["warnings"]:
        out.print("\nWarnings", style="bold")
        out.print(pairs((str(n), text) for n, text in enumerate(trace["warnings"], 1)))


def _header(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    counts, asked = trace["counts"], trace["requests_asked"]
    yield "policy", f"{trace['policy']}, block {trace['block_tokens']}"
    yield "task", trace["task"]
    if trace["partial"]:
        yield "partial", f"a snapshot: {counts['requests']} of {asked} requests"
    yield "requests", f"{counts['requests']} in batches of {trace['batch']}"
    limit = trace["output_limit_tokens"]
    yield "output", f"{counts['output_tokens']} tokens, at most {limit} a request"
    kinds = ("prefill_forwards", "denoise_forwards", "store_forwards")
    prefill, denoise, store = (counts[kind] for kind in kinds)
    yield "forwards", f"{prefill} prefill, {denoise} denoising, {store} only storing"
    batch = counts["batch_forwards"]
    yield "of batches", f"{batch}, of which {counts['batch_prefill_forwards']} prefilled"


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
    for step, blocks, readiness, revealed in list(rows)[:MOST_STEPS]:
        bar = "#" * round(BAR_WIDTH * readiness)
        ready = percent(readiness)
        yield str(step), str(blocks), ready, f"{bar:<{BAR_WIDTH}}", f"{revealed:.2f}"


def _accuracy(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found["accuracy"] is None:
        yield "correct", "not checked"
    else:
        error = percent(found["accuracy_standard_error"])
        yield "correct", f"{percent(found['accuracy'])}, standard error {error}"
    if found["valid"] is not None:
        error = percent(found["valid_standard_error"])
        yield "valid in every sentence", f"{percent(found['valid'])}, standard error {error}"


def _provenance(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    checkpoint = trace["checkpoint"]
    yield (
        "checkpoint",
        f"{checkpoint['name']}, trained for block {checkpoint['trained_block_tokens']}",
    )
    yield "SHA-256", checkpoint["sha256"]
    yield "seed", str(trace["seed"])
    yield "batch", str(trace["batch"])
    yield "data type", trace["dtype"]
    yield from trace["software"].items()


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
