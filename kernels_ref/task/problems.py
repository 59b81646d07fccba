"""The generator: somebody has items, two to six things happen, and how many are there now.

Every sentence of a solution comes in one of three phrasings. A problem prefers one (half of them
the first, 0.3 the second, 0.2 the third) and each sentence keeps it with probability 0.85: so a
model is unsure of words and of lengths, as it is with real text. Which split a problem belongs to
follows from a hash of its words alone: one in sixteen is held out, whatever the seed.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels_ref.task.vocabulary import (
    BEGIN,
    END,
    GAINS,
    HE,
    ITEMS,
    LARGEST_NUMBER,
    LOSSES,
    NAMES,
    SHE,
    encode,
)

Split = Literal["train", "held-out"]
Kind = Literal["gain", "receive", "lose", "give", "double"]
KINDS: tuple[Kind, ...] = ("gain", "receive", "lose", "give", "double")

FEWEST_EVENTS, MOST_EVENTS = 2, 6
PHRASINGS = 3
PHRASING_SHARES = (0.5, 0.3, 0.2)
KEPT = 0.85
HELD_OUT_SHARE = 16
"""One problem in so many is held out."""


@dataclass(frozen=True)
class Event:
    """Something that takes the count from *before* to *after*."""

    kind: Kind
    word: str
    """The verb of a gain or a loss, the friend of a gift."""
    amount: int
    before: int

    @property
    def after(self) -> int:
        """The count behind the event."""
        change = -self.amount if self.kind in {"lose", "give"} else self.amount
        return self.before + change


@dataclass(frozen=True)
class Problem:
    """What happens, and one right solution of it."""

    name: str
    item: str
    start: int
    events: tuple[Event, ...]
    phrasings: tuple[int, ...]
    """Of the opening, of each event, of the ending: the one in *solution*."""

    @property
    def answer(self) -> int:
        """The count at the end."""
        return self.events[-1].after

    @property
    def prompt(self) -> list[int]:
        """Tokens of the question, the begin token first."""
        return [BEGIN, *encode(question_words(self))]

    @property
    def solution(self) -> list[int]:
        """Tokens of the worked solution, the end token last."""
        sentences = zip(solution_sentences(self), self.phrasings, strict=True)
        words = [word for ways, phrasing in sentences for word in ways[phrasing]]
        return [*encode(words), END]


def question_words(problem: Problem) -> list[str]:
    """The question: the start, what happened, what is asked."""
    text = f"{problem.name} has {problem.start} {problem.item} ."
    for event in problem.events:
        text += f" {_told(problem, event)} ."
    return f"{text} how many {problem.item} does {problem.name} have now ?".split()


def solution_sentences(problem: Problem) -> list[tuple[list[str], ...]]:
    """For each sentence of a right solution its three phrasings, in words."""
    who, item, start, end = problem.name, problem.item, problem.start, problem.answer
    opening = (
        f"{who} starts with {start} {item} .",
        f"at first there are {start} {item} .",
        f"we begin with {start} .",
    )
    ending = (
        f"the answer is {end} .",
        f"so {who} has {end} {item} now : the answer is {end} .",
        f"therefore in the end there are {end} and the answer is {end} .",
    )
    texts = [opening, *(_worked(problem, event) for event in problem.events), ending]
    return [tuple(way.split() for way in ways) for ways in texts]


def _told(problem: Problem, event: Event) -> str:
    """The event in the question."""
    she, her = _pronouns(problem.name)
    match event.kind:
        case "gain":
            return f"{she} {event.word} {event.amount} more"
        case "receive":
            return f"{event.word} gives {her} {event.amount}"
        case "lose":
            return f"{she} {event.word} {event.amount} of them"
        case "give":
            return f"{she} gives {event.word} {event.amount}"
        case "double":
            return f"{she} doubles the number"


def _retold(problem: Problem, event: Event) -> str:
    """The event in the solution, where friends have no names."""
    she, _ = _pronouns(problem.name)
    match event.kind:
        case "receive":
            return f"{she} gets {event.amount}"
        case "give":
            return f"{she} gives {event.amount}"
        case "gain" | "lose" | "double":
            return _told(problem, event)


def _worked(problem: Problem, event: Event) -> tuple[str, str, str]:
    """The event in the solution, three ways."""
    she, _ = _pronouns(problem.name)
    sign = "-" if event.kind in {"lose", "give"} else "+"
    before, after = event.before, event.after
    amount = event.amount
    told = _retold(problem, event)
    return (
        f"{told} , so {before} {sign} {amount} = {after} .",
        f"after that {she} has {before} {sign} {amount} = {after} {problem.item} .",
        f"since {told} , the count goes from {before} to {after} .",
    )


def _pronouns(name: str) -> tuple[str, str]:
    return ("she", "her") if name in SHE else ("he", "him")


def is_held_out(prompt: list[int]) -> bool:
    """Whether a question belongs to the held-out split."""
    return hashlib.sha256(bytes(prompt)).digest()[0] % HELD_OUT_SHARE == 0


def problems(split: Split, seed: int) -> Iterator[Problem]:
    """Endless problems of *split*, the same for the same *seed*."""
    generator = np.random.default_rng(seed)
    while True:
        problem = _drawn(generator)
        if is_held_out(problem.prompt) == (split == "held-out"):
            yield problem


def _drawn(generator: np.random.Generator) -> Problem:
    name = str(generator.choice(SHE + HE))
    start = int(generator.integers(1, LARGEST_NUMBER + 1))
    count, events = start, []
    for _ in range(generator.integers(FEWEST_EVENTS, MOST_EVENTS + 1)):
        event = _drawn_event(generator, name, count)
        events.append(event)
        count = event.after
    preferred = generator.choice(PHRASINGS, p=PHRASING_SHARES)
    other = generator.integers(PHRASINGS, size=len(events) + 2)
    kept = generator.random(len(events) + 2) < KEPT
    phrasings = tuple(int(p) for p in np.where(kept, preferred, other))
    return Problem(name, str(generator.choice(ITEMS)), start, tuple(events), phrasings)


def _drawn_event(generator: np.random.Generator, name: str, before: int) -> Event:
    possible = [kind for kind in KINDS if _amounts(kind, before)]
    kind = possible[generator.integers(len(possible))]
    amount = int(generator.choice(_amounts(kind, before)))
    friends = [friend for friend in NAMES if friend != name]
    words = {"gain": GAINS, "lose": LOSSES, "double": ("doubles",)}.get(kind, tuple(friends))
    return Event(kind, str(generator.choice(words)), amount, before)


def _amounts(kind: Kind, before: int) -> range | list[int]:
    """What may happen to *before* so that the count stays a number of the vocabulary."""
    if kind == "double":
        return [before] if 0 < 2 * before <= LARGEST_NUMBER else []
    most = before if kind in {"lose", "give"} else LARGEST_NUMBER - before
    return range(1, most + 1)
