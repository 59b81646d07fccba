"""Rounds at once: rows that wait for each other's blocks, a whole round priced together."""

from dataclasses import dataclass, field

import numpy as np

from simulator.batch_price import EMITTED_TOKENS, EMITTING_ROWS, KV_BYTES
from simulator.deployment import Deployment
from simulator.prompts import Chunk
from simulator.row import Row
from simulator.schedule import N_LOADS, QUERY, IntArray
from simulator.stepping.priced_in_bulk import Columns, PricedInBulk
from simulator.stepping.upcoming import FloatArray, Upcoming


@dataclass(eq=False)
class _Place:
    """Where a row is, and where it stops in this round."""

    position: int
    stop: int
    ends_s: list[FloatArray] = field(default_factory=list)


class InRounds(PricedInBulk):
    """Rows in the order in which they joined; nobody joins or leaves within a round."""

    def __init__(self, deployment: Deployment) -> None:
        """Without rows."""
        super().__init__(deployment)
        self._places: dict[Row, _Place] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no row has a step to take."""
        return all(_is_over(row, place) for row, place in self._places.items())

    @property
    def at_boundary(self) -> bool:
        """A round is taken whole."""
        return True

    @property
    def next_kv_bytes(self) -> float:
        """Cache that all rows hold during the next round."""
        return sum(row.held_bytes(place.stop) for row, place in self._places.items())

    @property
    def next_query_tokens(self) -> int:
        """Tokens that go through the passes of the next step."""
        places = self._places.items()
        return sum(int(_padded(row, place, 1)[:, QUERY].sum()) for row, place in places)

    def start(self, row: Row) -> None:
        """*row* decodes from its position on."""
        place = self._places[row] = _Place(row.position, _stop(row, row.position))
        if _is_over(row, place):
            self._finished[row] = np.nan

    def drop(self, row: Row) -> None:
        """Take out a row that is not over."""
        place = self._places.pop(row)
        row.position = place.position
        row.ends_s += place.ends_s

    def leave(self, row: Row) -> None:
        """Take out a row that is over."""
        self.drop(row)

    def upcoming(
        self,
        most_steps: int,  # noqa: ARG002 (the interface)
        *,
        until_finish: bool,  # noqa: ARG002 (the interface)
        quiet_s: float,  # noqa: ARG002 (the interface)
    ) -> Upcoming:
        """The next round, whole."""
        return self.priced(*self._next())

    def _next(self) -> Columns:
        n_steps = max(place.stop - place.position for place in self._places.values())
        loads = [_padded(row, place, n_steps) for row, place in self._places.items()]
        passes = next(iter(self._places)).schedule.passes
        terms = self.price(passes).terms(np.stack(loads, axis=2), None)
        emitted = [
            int(row.schedule.emitted_tokens[place.stop - 1])
            for row, place in self._places.items()
            if not _is_over(row, place)
        ]
        # What a block emits comes out when the slowest of the round is done.
        for which, value in (
            (EMITTED_TOKENS, sum(emitted)),
            (EMITTING_ROWS, sum(map(bool, emitted))),
        ):
            terms.sums[which] = 0.0
            terms.sums[which, -1] = value
        terms.sums[KV_BYTES] = self.next_kv_bytes
        return terms.sums, terms.maxima

    def mixed(self, chunks: tuple[Chunk, ...]) -> Upcoming:
        """Not in rounds: a scenario that asks for it is refused."""
        message = f"rounds take no prompt chunks, got {len(chunks)}"
        raise ValueError(message)

    def advance(self, ends_s: FloatArray) -> None:
        """A round was taken."""
        self.take(len(ends_s))
        for row, place in self._places.items():
            if _is_over(row, place):
                continue
            ends = ends_s[: place.stop - place.position].copy()
            ends[-1] = ends_s[-1]
            place.ends_s.append(ends)
            place.position = place.stop
            place.stop = _stop(row, place.position)
            if _is_over(row, place):
                self._finished[row] = float(ends_s[-1])


def _is_over(row: Row, place: _Place) -> bool:
    return place.position >= row.schedule.n_steps


def _stop(row: Row, position: int) -> int:
    """Behind the step that next emits something, from *position* on."""
    later = np.flatnonzero(row.schedule.emitted_tokens[position:])
    return position + int(later[0]) + 1 if len(later) else row.schedule.n_steps


def _padded(row: Row, place: _Place, n_steps: int) -> IntArray:
    """[passes, 6, n_steps]: the row's steps in the round, the last one repeated."""
    loads = row.schedule.loads
    if not row.schedule.n_steps:
        return np.zeros((len(loads), N_LOADS, n_steps), dtype=np.int64)
    steps = np.minimum(np.arange(place.position, place.position + n_steps), place.stop - 1)
    return loads[:, :, steps]
