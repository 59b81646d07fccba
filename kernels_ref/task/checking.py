"""Whether a decoded solution is right: its answer, and every sentence of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels_ref.task.problems import Problem, solution_sentences
from kernels_ref.task.vocabulary import END, decode


@dataclass(frozen=True)
class Verdict:
    """What holds of a solution."""

    correct: bool
    """The number behind the last "answer is" is the right one."""
    valid: bool
    """Every sentence is one of the right phrasings, in order, and nothing else is there."""


def check(problem: Problem, output: Sequence[int]) -> Verdict:
    """Judge *output*, tokens behind the prompt; what follows the end token does not count."""
    tokens = list(output)
    ended = END in tokens
    words = decode(tokens[: tokens.index(END)] if ended else tokens)
    return Verdict(_answer(words) == str(problem.answer), ended and _is_valid(problem, words))


def _answer(words: list[str]) -> str | None:
    """The word behind the last "answer is"."""
    behind = [words[i + 2] for i in range(len(words) - 2) if words[i : i + 2] == ["answer", "is"]]
    return behind[-1] if behind else None


def _is_valid(problem: Problem, words: list[str]) -> bool:
    for ways in solution_sentences(problem):
        # No phrasing of a sentence is the beginning of another one's.
        way = next((way for way in ways if words[: len(way)] == way), None)
        if way is None:
            return False
        words = words[len(way) :]
    return not words
