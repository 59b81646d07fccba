"""The checker: every right solution passes, everything else is found out."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.task.checking import Verdict, check
from kernels_ref.task.problems import Event, Problem, problems, solution_sentences
from kernels_ref.task.vocabulary import END, TOKENS, WORDS, encode

SMALL = Problem(
    "mia",
    "pens",
    4,
    (Event("receive", "ben", 3, 4), Event("lose", "drops", 2, 7)),
    (0, 0, 0, 0),
)
RIGHT = Verdict(correct=True, valid=True)


def solution(problem: Problem, phrasings: tuple[int, ...]) -> list[int]:
    """A solution in other *phrasings*, the end token last."""
    sentences = zip(solution_sentences(problem), phrasings, strict=True)
    return [*encode(word for ways, way in sentences for word in ways[way]), END]


def said(text: str) -> list[int]:
    """Tokens of *text*, which may hold the end token."""
    return [TOKENS[word] for word in text.split()]


def test_a_solution_written_by_hand() -> None:
    """Sentences of all three phrasings in English that nobody generated."""
    text = (
        "we begin with 4 . after that she has 4 + 3 = 7 pens . "
        "since she drops 2 of them , the count goes from 7 to 5 . "
        "so mia has 5 pens now : the answer is 5 . <end>"
    )
    assert check(SMALL, said(text)) == RIGHT


def test_every_combination_of_phrasings_is_right() -> None:
    """All 81 solutions of a problem with two events."""
    for phrasings in itertools.product(range(3), repeat=4):
        assert check(SMALL, solution(SMALL, phrasings)) == RIGHT


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=60)
def test_any_problem_in_any_phrasings(seed: int, data: st.DataObject) -> None:
    """Whatever the problem, each sentence may have each phrasing."""
    problem = next(problems("held-out", seed))
    ways = data.draw(st.tuples(*[st.integers(0, 2)] * (len(problem.events) + 2)))
    assert check(problem, solution(problem, ways)) == RIGHT


def test_every_other_word_at_every_place_is_wrong() -> None:
    """No single token of a solution can be any other one, in any of the three phrasings."""
    for way in range(3):
        right = solution(SMALL, (way,) * 4)
        for place, token in itertools.product(range(len(right)), range(len(WORDS))):
            if token != right[place]:
                wrong = [*right[:place], token, *right[place + 1 :]]
                assert not check(SMALL, wrong).valid, (way, place, WORDS[token])


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=60)
def test_lost_and_doubled_words_are_found(seed: int, data: st.DataObject) -> None:
    """A solution with a word left out, said twice or put behind its neighbour is not valid."""
    problem = next(problems("train", seed))
    right = problem.solution
    place = data.draw(st.integers(0, len(right) - 2))
    assert not check(problem, [*right[:place], *right[place + 1 :]]).valid
    assert not check(problem, [*right[:place], right[place], *right[place:]]).valid
    swapped = [*right[:place], right[place + 1], right[place], *right[place + 2 :]]
    assert check(problem, swapped).valid == (right[place] == right[place + 1])


def test_the_answer_counts_apart_from_the_sentences() -> None:
    """A wrong step may lead to the right answer, and right steps to a wrong last number."""
    right = "mia starts with 4 pens . she gets 3 , so 4 + 3 = 7 . "
    wrong_step = right.replace("7", "8") + "she drops 2 of them , so 7 - 2 = 5 . "
    last_step = "she drops 2 of them , so 7 - 2 = 5 . "

    assert check(SMALL, said(wrong_step + "the answer is 5 . <end>")) == Verdict(
        correct=True, valid=False
    )
    assert check(SMALL, said(right + last_step + "the answer is 6 . <end>")) == Verdict(
        correct=False, valid=False
    )
    both = right + last_step + "the answer is 6 . the answer is 5 . <end>"
    assert check(SMALL, said(both)) == Verdict(correct=True, valid=False)


def test_a_solution_ends() -> None:
    """Without an end token it is not valid; what follows the end token does not count."""
    right = solution(SMALL, (0,) * 4)
    assert check(SMALL, right[:-1]) == Verdict(correct=True, valid=False)
    assert check(SMALL, [*right, *right[::-1]]) == RIGHT


def test_nothing_and_nearly_nothing() -> None:
    """Outputs that are empty, end at once, or stop in front of the number are wrong, no error."""
    for text in ("", "<end>", "the answer is", "<mask> answer is <mask>"):
        assert check(SMALL, said(text)) == Verdict(correct=False, valid=False)
