"""Rows of the trace's tables, from sequences that are decoded."""

from dataclasses import asdict
from typing import Any

from kernels_ref.capture.prompts import Prompt
from kernels_ref.decoding.sequence import Sequence

Rows = dict[str, list[dict[str, Any]]]
"""By table: requests, blocks, steps."""


def rows_of(sequence: Sequence, prompt: Prompt, batch: int, row: int) -> Rows:
    """What the tables say of one sequence, the *row* of its *batch*."""
    record, request = sequence.record, sequence.request
    kinds = [forward.kind for forward in record.forwards]
    verdict = prompt.judge(_judged(sequence)) if prompt.judge is not None else None
    output = sequence.output()
    about = {
        "request": request,
        "problem": request,
        "batch": batch,
        "row": row,
        "prompt_tokens": sequence.prompt_tokens,
        "output_tokens": len(output),
        "prefill_forwards": kinds.count("prefill"),
        "denoise_forwards": kinds.count("denoise") + kinds.count("fused-store"),
        "store_forwards": kinds.count("store"),
        "finish_reason": sequence.finish_reason,
        "correct": None if verdict is None else verdict.correct,
        "valid": None if verdict is None else verdict.valid,
        "output": output.tolist(),
    }
    blocks = enumerate(record.blocks)
    steps = enumerate(record.forwards)
    return {
        "requests": [about],
        "blocks": [{"request": request, "block": i, **asdict(block)} for i, block in blocks],
        "steps": [{"request": request, "step": i, **asdict(step)} for i, step in steps],
    }


def _judged(sequence: Sequence) -> list[int]:
    """The answer with its end token, where it came to one."""
    output = sequence.output().tolist()
    ended = sequence.finish_reason == "end"
    return [*output, sequence.facts.end_tokens[0]] if ended else output
