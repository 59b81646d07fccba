"""Every way that the draws of a program can fall, each with its probability."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np

from kernels_ref.decoding.query import FloatArray
from kernels_ref.decoding.speculation import Draw

Outcome = TypeVar("Outcome", bound=Hashable)


class Scripted:
    """Draws as *script* says, and behind it the first entry that is possible."""

    def __init__(self, script: tuple[int, ...]) -> None:
        """Begin with nothing drawn."""
        self._script = script
        self._taken: list[int] = []
        self.chance = 1.0
        """The probability of all that was drawn."""
        self.others: list[tuple[int, ...]] = []
        """Scripts that fall otherwise behind this one."""

    def draw(self, probabilities: FloatArray) -> int:
        """The next entry."""
        step = len(self._taken)
        if step < len(self._script):
            entry = self._script[step]
        else:
            entry, *others = np.flatnonzero(probabilities).tolist()
            self.others += [(*self._taken, other) for other in others]
        self._taken.append(entry)
        self.chance *= float(probabilities[entry])
        return entry


def law_of(run: Callable[[Draw], Outcome]) -> dict[Outcome, float]:
    """The law of what *run* comes back with, by running it once for every way its draws fall."""
    law: dict[Outcome, float] = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        scripted = Scripted(waiting.pop())
        outcome = run(scripted.draw)
        law[outcome] = law.get(outcome, 0.0) + scripted.chance
        waiting += scripted.others
    return law


def distance(one: dict[Outcome, float], other: dict[Outcome, float]) -> float:
    """Total variation: half the sum of the differences."""
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other}) / 2
