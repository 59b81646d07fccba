"""The search for the least number at which something holds, against looking at all of them."""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.plan.least import Least, Span, least

Predicate = Callable[[int], bool]


@dataclass(frozen=True)
class Answer:
    """A verdict."""

    is_met: bool


@dataclass(frozen=True)
class Found:
    """What a search came to, and what it asked."""

    least: Least[Answer]
    glanced: list[int]
    judged: list[int]


def search(glance: Predicate, truth: Predicate, span: Span) -> Found:
    """Drive the search; a question is what to look at, its answer whether it holds."""
    glanced: list[int] = []
    judged: list[int] = []

    def ask_glance(number: int) -> Generator[tuple[str, int], bool, bool]:
        return (yield "glance", number)

    def ask_judge(number: int) -> Generator[tuple[str, int], bool, Answer]:
        return Answer((yield "judge", number))

    questions = least(ask_glance, ask_judge, span)
    try:
        kind, number = next(questions)
        while True:
            (glanced if kind == "glance" else judged).append(number)
            kind, number = questions.send((glance if kind == "glance" else truth)(number))
    except StopIteration as stop:
        return Found(stop.value, glanced, judged)


def scanned(truth: Predicate, span: Span) -> int | None:
    """The first number that holds, by asking each."""
    return next((n for n in range(span.fewest, span.most + 1) if truth(n)), None)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Any span, with a start that may lie outside and any stride."""
    fewest = draw(st.integers(-300, 300))
    return Span(
        fewest,
        fewest + draw(st.integers(0, 500)),
        draw(st.integers(-400, 900)),
        draw(st.integers(-1, 60)),
    )


@given(span=spans(), place=st.integers(-5, 505))
def test_the_edge_is_that_of_a_scan(span: Span, place: int) -> None:
    """Wherever the edge is, its place is found; both of its sides were judged, nothing twice."""
    edge = span.fewest + place

    found = search(lambda n: n >= edge, lambda n: n >= edge, span)

    number = found.least.number
    assert number == scanned(lambda n: n >= edge, span)
    assert not found.least.exceptions
    assert len(set(found.judged)) == len(found.judged)
    assert len(set(found.glanced)) == len(found.glanced)
    assert all(span.fewest <= n <= span.most for n in (*found.judged, *found.glanced))
    assert list(found.least.judged) == found.judged
    if number is None:
        assert not found.least.judged[span.most].is_met
    else:
        assert found.least.judged[number].is_met
        assert number == span.fewest or not found.least.judged[number - 1].is_met


@given(span=spans(), place=st.integers(-5, 505), lies=st.sets(st.integers(-300, 800)))
def test_glances_may_be_wrong(span: Span, place: int, lies: set[int]) -> None:
    """Whatever glances say, the edge is that of the verdicts, and none is asked for twice."""
    edge = span.fewest + place

    found = search(lambda n: (n >= edge) != (n in lies), lambda n: n >= edge, span)

    assert found.least.number == scanned(lambda n: n >= edge, span)
    assert len(set(found.judged)) == len(found.judged)


@given(span=spans(), holds=st.sets(st.integers(-300, 800)), seen=st.sets(st.integers(-300, 800)))
def test_an_edge_of_anything_at_all(span: Span, holds: set[int], seen: set[int]) -> None:
    """Though nothing be monotone, what is found holds and its predecessor does not."""
    found = search(lambda n: n in seen, lambda n: n in holds, span)

    number = found.least.number
    if number is not None:
        assert number in holds
        assert number == span.fewest or number - 1 not in holds
        assert found.least.exceptions == sorted(
            n for n in found.judged if n > number and n not in holds
        )


def test_a_successor_that_fails_is_an_exception() -> None:
    """Seven holds and eight does not: the glance at eight sees it, and a verdict says so."""
    truth = {7, *range(9, 33)}

    found = search(truth.__contains__, truth.__contains__, Span(1, 32, 6))

    assert found.least.number == 7
    assert found.least.exceptions == [8]


def test_a_glance_at_the_successor_that_errs_is_no_exception() -> None:
    """It seems not to hold at eight; the verdict is that it does."""
    found = search(lambda n: n == 7 or n > 8, lambda n: n >= 7, Span(1, 32, 6))

    assert found.least.number == 7
    assert found.least.exceptions == []
    assert found.least.judged[8].is_met


@given(edge=st.integers(1, 2**20), start=st.integers(1, 2**20))
def test_questions_grow_like_the_logarithm(edge: int, start: int) -> None:
    """A bracket and its halves are some twice the logarithm of the way; verdicts are few."""
    found = search(lambda n: n >= edge, lambda n: n >= edge, Span(1, 2**20, start))

    way = math.log2(abs(edge - start) + 2)
    assert len(found.glanced) <= 2 * way + 3
    assert len(found.judged) <= 2


@pytest.mark.parametrize("glanced", [1, 2**19])
def test_glances_that_are_far_off_cost_few_verdicts(glanced: int) -> None:
    """From an edge that is half a million off, verdicts go in strides, not one by one."""
    edge = 2**18

    found = search(lambda n: n >= glanced, lambda n: n >= edge, Span(1, 2**20, 1))

    assert found.least.number == edge
    assert len(found.judged) <= 2 * math.log2(2**20) + 3
