"""The generator: its splits, its numbers, its words, and that a seed says everything."""

import itertools
import os
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.task.problems import (
    PHRASING_SHARES,
    Event,
    Problem,
    Split,
    is_held_out,
    problems,
    solution_sentences,
)
from kernels_ref.task.vocabulary import BEGIN, END, MASK, NAMES, WORDS, decode, encode

ROOT = Path(__file__).parents[3]
SPLITS: tuple[Split, Split] = ("train", "held-out")
seeds = st.integers(0, 2**62)


def drawn(split: Split, seed: int, count: int) -> list[Problem]:
    """The first *count* problems."""
    return list(islice(problems(split, seed), count))


def test_the_splits_share_no_question() -> None:
    """Nothing that is held out is ever trained on, whatever the seeds of the two draws."""
    trained = {tuple(p.prompt) for seed in range(4) for p in drawn("train", seed, 300)}
    held_out = {tuple(p.prompt) for seed in range(4) for p in drawn("held-out", seed, 20)}

    assert len(trained) > 1150
    assert not trained & held_out


@given(seed=seeds)
@settings(max_examples=25)
def test_a_question_says_itself_whether_it_is_held_out(seed: int) -> None:
    """Each split gives only questions of its own kind, and its problems' hash decides, no seed."""
    for split in SPLITS:
        found = {is_held_out(problem.prompt) for problem in drawn(split, seed, 5)}
        assert found == {split == "held-out"}


def test_one_problem_in_sixteen_is_held_out() -> None:
    """The share of the held-out split is 1/16, within four standard errors."""
    # A draw of one split alone says nothing about shares, its questions about other people do.
    other = [
        [BEGIN, *encode([name]), *problem.prompt[2:]]
        for problem in drawn("train", 9, 300)
        for name in NAMES
        if name != problem.name
    ]
    share = sum(is_held_out(prompt) for prompt in other) / len(other)

    assert abs(share - 1 / 16) < 4 * (1 / 16 * 15 / 16 / len(other)) ** 0.5


ASK = """
import hashlib, itertools
from kernels_ref.task.problems import problems
drawn = itertools.islice(problems("train", 7), 300)
print(hashlib.sha256(repr([(p.prompt, p.solution) for p in drawn]).encode()).hexdigest())
"""


def test_another_process_draws_the_same() -> None:
    """No order of a set or dictionary gets into a draw: the hash seed of Python changes nothing."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", ASK],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(answers) == 1


@given(seed=seeds)
@settings(max_examples=40)
def test_counts_stay_numbers_of_the_vocabulary(seed: int) -> None:
    """Every count and amount is 0 to 9, events follow one another, and the last is the answer."""
    for problem in drawn("train", seed, 10):
        counts = [problem.start, *(event.after for event in problem.events)]
        assert all(0 <= count <= 9 for count in counts)
        assert all(1 <= event.amount <= 9 for event in problem.events)
        assert 2 <= len(problem.events) <= 6
        assert [event.before for event in problem.events] == counts[:-1]
        assert problem.answer == counts[-1]


@given(seed=seeds)
@settings(max_examples=40)
def test_questions_tell_the_sum_that_the_solution_works_out(seed: int) -> None:
    """The answer follows from the words of the question alone, by a reader of its own."""
    for problem in drawn("train", seed, 5):
        assert read_aloud(" ".join(decode(problem.prompt[1:]))) == problem.answer


def read_aloud(question: str) -> int:
    """Who has how many at the end of *question*."""
    first, *told, _ = question.split(" . ")
    name, _, count, _ = first.split()
    total = int(count)
    for sentence in told:
        words = sentence.split()
        number = next((int(word) for word in words if word.isdigit()), 0)
        if "doubles" in words:
            total *= 2
        elif words[1] in {"finds", "buys", "wins", "makes"} or words[2] in {"her", "him"}:
            total += number
        else:
            total -= number
        assert (words[0] in {"she", "he"}) or (words[0] != name and words[1] == "gives")
    return total


@given(seed=seeds)
@settings(max_examples=40)
def test_sequences_are_words_between_marks(seed: int) -> None:
    """Prompts begin with the begin token, solutions end with the end token, no mask is anywhere."""
    for problem in drawn("train", seed, 10):
        prompt, solution = problem.prompt, problem.solution
        assert (prompt[0], solution[-1]) == (BEGIN, END)
        inner = [*prompt[1:], *solution[:-1]]
        assert all(BEGIN < token < len(WORDS) for token in inner)
        assert MASK not in inner


def test_the_longest_problem_fits_the_context() -> None:
    """Six losses in the longest words, in blocks of 16 and a block behind, take 192 places."""
    losses = tuple(Event("lose", "sells", 1, before) for before in range(9, 3, -1))
    every = [
        Problem("anna", "books", 9, losses, (first, *[way] * 6, last))
        for first, way, last in itertools.product(range(3), repeat=3)
    ]
    longest = max(every, key=lambda problem: len(problem.solution))
    # By hand: 1 + 5 + 6 x 6 + 8 of the question; 7 + 6 x 15 + 13 + 1 of the solution.
    assert (len(longest.prompt), len(longest.solution)) == (50, 111)
    others = drawn("train", 3, 300)
    assert max(len(p.prompt) + len(p.solution) for p in others) <= 161
    assert (-(-161 // 16) + 1) * 16 == 192


def test_phrasings_have_their_shares() -> None:
    """A sentence is in the preferred phrasing with 0.85 + 0.15 / 3, and half prefer the first."""
    found = [p.phrasings for p in drawn("train", 11, 1500)]
    for phrasing, share in enumerate(PHRASING_SHARES):
        expected = 0.85 * share + 0.15 / 3
        first = sum(way[0] == phrasing for way in found) / len(found)
        assert first == pytest.approx(expected, abs=4 * (0.25 / len(found)) ** 0.5)
    # Two neighbours are equal if both are kept, or by chance otherwise.
    pairs = [pair for ways in found for pair in pairwise(ways)]
    both = 0.85**2 + 2 * 0.85 * 0.15 / 3 + 0.15**2 / 3
    equal = sum(a == b for a, b in pairs) / len(pairs)
    assert equal == pytest.approx(both, abs=0.03)


@given(seed=seeds)
@settings(max_examples=20)
def test_a_solution_is_its_sentences_in_their_phrasings(seed: int) -> None:
    """Every sentence ends with a full stop, opening, events and ending in this order."""
    (problem,) = drawn("train", seed, 1)
    words = decode(problem.solution[:-1])
    chosen = [
        ways[way] for ways, way in zip(solution_sentences(problem), problem.phrasings, strict=True)
    ]
    assert words == [word for sentence in chosen for word in sentence]
    assert words.count(".") == len(problem.events) + 2
