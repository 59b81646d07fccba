"""Least: the smallest whole number at which something holds, found by few and dear questions.

Questions are yielded and answers sent, so that whoever asks may run many searches side by side.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

Asked = TypeVar("Asked")
Told = TypeVar("Told")


class Judged(Protocol):
    """An answer that took all the care there is."""

    @property
    def is_met(self) -> bool:
        """Whether it holds."""


J = TypeVar("J", bound=Judged)
Glance = Callable[[int], Generator[Asked, Told, bool]]
"""Whether it seems to hold at a number; cheap, and may be wrong near the edge."""
Judge = Callable[[int], Generator[Asked, Told, J]]
"""Whether it holds, whatever that costs."""


@dataclass(frozen=True)
class Span:
    """Where to look: from *fewest* to *most*, at *start* first, from there *stride* away."""

    fewest: int
    most: int
    start: int
    stride: int = 1


@dataclass(frozen=True)
class Least(Generic[J]):
    """What a search found."""

    number: int | None
    """None where it holds nowhere up to the most."""
    judged: dict[int, J] = field(default_factory=dict)
    """Every verdict on the way, by number."""

    @property
    def exceptions(self) -> list[int]:
        """Larger numbers at which it does not hold: it should hold from *number* on."""
        if self.number is None:
            return []
        return sorted(n for n, j in self.judged.items() if n > self.number and not j.is_met)


def least(
    glance: "Glance[Asked, Told]", judge: "Judge[Asked, Told, J]", span: Span
) -> Generator[Asked, Told, Least[J]]:
    """The least number in *span* at which it holds.

    Glances bracket it in strides that double, and halve the bracket. From the edge that they see,
    verdicts do the same, so that what is found holds and its predecessor does not.
    At last a glance at the successor, and a verdict where the glance says no, tell whether it goes
    on to hold: an edge of something that is not monotone is told as such.
    """
    search = _Search[Asked, Told, J](glance, judge, span)
    number = yield from search.certified((yield from search.bracketed()))
    if number is not None and number < span.most:
        yield from search.followed(number + 1)
    return Least(number, search.judged)


class _Search(Generic[Asked, Told, J]):
    """What is known so far, and the moves of the search."""

    def __init__(
        self, glance: "Glance[Asked, Told]", judge: "Judge[Asked, Told, J]", span: Span
    ) -> None:
        self._ask_glance, self._ask_judge, self._span = glance, judge, span
        self.judged: dict[int, J] = {}
        self._glances: dict[int, bool] = {}

    def _glance(self, number: int) -> Generator[Asked, Told, bool]:
        if number not in self._glances:
            self._glances[number] = yield from self._ask_glance(number)
        return self._glances[number]

    def _judge(self, number: int) -> Generator[Asked, Told, bool]:
        if number not in self.judged:
            self.judged[number] = yield from self._ask_judge(number)
        return self.judged[number].is_met

    def bracketed(self) -> Generator[Asked, Told, int]:
        """The edge that glances see; one above the most where they see none."""
        span = self._span
        return (yield from self._edge(self._glance, span.start, span.stride))

    def certified(self, edge: int) -> Generator[Asked, Told, int | None]:
        """The edge that holds and whose predecessor does not, from that of the glances on."""
        found = yield from self._edge(self._judge, edge, 1)
        return None if found > self._span.most else found

    def _edge(
        self, holds: "Glance[Asked, Told]", start: int, stride: int
    ) -> Generator[Asked, Told, int]:
        """Where it begins to hold by what is asked; one above the most where it does nowhere.

        From *start* on in strides that double, then halving what is left.
        """
        span = self._span
        low, high, stride = span.fewest - 1, span.most + 1, max(1, stride)
        number = min(max(start, span.fewest), span.most)
        while high - low > 1:
            if (yield from holds(number)):
                high = number
            else:
                low = number
            if low < span.fewest or high > span.most:
                up = high > span.most
                number = min(span.most, low + stride) if up else max(span.fewest, high - stride)
                stride *= 2
            else:
                number = (low + high) // 2
        return high

    def followed(self, number: int) -> Generator[Asked, Told, None]:
        """Judge *number* where a glance says that it does not hold."""
        if not (yield from self._glance(number)):
            yield from self._judge(number)
