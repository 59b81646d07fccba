"""What is said of every request alike: where it was decoded, what came out, whether it is right."""

from collections.abc import Sequence
from typing import Any, Protocol

from kernels_ref.capture.prompts import Prompt
from kernels_ref.decoding.query import IntArray, ModelFacts


class Decoded(Protocol):
    """A request whose decoding is over."""

    facts: ModelFacts
    request: int
    prompt_tokens: int

    def output(self) -> IntArray:
        """The answer without its end token."""

    @property
    def finish_reason(self) -> str:
        """Either "end" or "limit"."""


def told(decoded: Decoded, prompt: Prompt, batch: int, row: int) -> dict[str, Any]:
    """The columns of `requests` that every kind of trace has."""
    output = decoded.output().tolist()
    verdict = prompt.judge(_judged(decoded, output)) if prompt.judge is not None else None
    return {
        "request": decoded.request,
        "problem": decoded.request,
        "batch": batch,
        "row": row,
        "prompt_tokens": decoded.prompt_tokens,
        "output_tokens": len(output),
        "finish_reason": decoded.finish_reason,
        "correct": None if verdict is None else verdict.correct,
        "valid": None if verdict is None else verdict.valid,
        "output": output,
    }


def _judged(decoded: Decoded, output: Sequence[int]) -> list[int]:
    """The answer with its end token, where it came to one."""
    ended = decoded.finish_reason == "end"
    return [*output, decoded.facts.end_tokens[0]] if ended else list(output)
