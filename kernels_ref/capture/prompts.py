"""The prompts to decode: held-out problems of the task, whose answers are checked, or a user's."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kernels_ref.task.checking import Verdict, check
from kernels_ref.task.problems import Problem, problems

Encode = Callable[[str], Sequence[int]]
"""Text to tokens; raises ValueError for what the model has no tokens for."""


class PromptsError(ValueError):
    """A file of prompts that cannot be used: which line, and why."""


@dataclass(frozen=True)
class Prompt:
    """Tokens, and how to judge what comes behind them; None where nobody can."""

    tokens: tuple[int, ...]
    judge: Callable[[Sequence[int]], Verdict] | None = None


def held_out(count: int, seed: int) -> list[Prompt]:
    """The first *count* problems of the held-out split by *seed*."""
    return [_prompt(problem) for problem in islice(problems("held-out", seed), count)]


def _prompt(problem: Problem) -> Prompt:
    return Prompt(tuple(problem.prompt), lambda output: check(problem, output))


def tokens_sha256(prompts: Sequence[Prompt]) -> str:
    """A hash of all tokens, so that other prompts of the same name are told apart."""
    return hashlib.sha256(json.dumps([prompt.tokens for prompt in prompts]).encode()).hexdigest()


def from_file(path: Path, most: int, encode: Encode) -> list[Prompt]:
    """Up to *most* prompts of JSON lines, each with "tokens", or with "text" for *encode*.

    Read line by line, so a long file is not held. Raises PromptsError naming the line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            return list(islice(_read(lines, encode), most))
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise PromptsError(what) from error
    except UnicodeDecodeError as error:
        what = "not UTF-8 text"
        raise PromptsError(what) from error


def _read(lines: Iterator[str], encode: Encode) -> Iterator[Prompt]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Prompt(tuple(_tokens(json.loads(line), encode)))
            except (ValueError, RecursionError) as error:
                what = f"line {number}: {error}"
                raise PromptsError(what) from error


def _tokens(given: Any, encode: Encode) -> Sequence[int]:  # noqa: ANN401 (any JSON)
    if isinstance(given, dict) and set(given) == {"text"} and isinstance(given["text"], str):
        return encode(given["text"])
    if isinstance(given, dict) and set(given) == {"tokens"}:
        tokens = given["tokens"]
        if isinstance(tokens, list) and all(type(token) is int for token in tokens):
            return tokens
    rule = 'a prompt is {"text": "..."} or {"tokens": [1, 2, ...]}'
    raise ValueError(rule)
