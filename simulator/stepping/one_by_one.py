"""The plain loop: every step looks at every row and is priced by itself.

Slow, and the reference that `in_bulk` must equal.
"""

from dataclasses import dataclass, field

import numpy as np

from simulator.deployment import Deployment
from simulator.prompts import Chunk, chunk_loads, emitting, prefill_passes
from simulator.row import Row
from simulator.schedule import N_LOADS, QUERY, IntArray
from simulator.step_cost import CostAccount, price_steps
from simulator.stepping.upcoming import FloatArray, Upcoming


@dataclass(eq=False)
class _Place:
    """Where a row is. In every round it takes the steps from *begin* to *stop*, if it has any."""

    row: Row
    position: int
    begin: int = 0
    stop: int = 0
    ends_s: list[float] = field(default_factory=list)

    @property
    def n_steps(self) -> int:
        return self.row.schedule.n_steps

    @property
    def is_over(self) -> bool:
        return self.position >= self.n_steps

    @property
    def emitted_tokens(self) -> int:
        """What comes out at the end of the round."""
        return int(self.row.schedule.emitted_tokens[self.stop - 1]) if self.stop > self.begin else 0

    def loads(self) -> IntArray:
        """[passes, 6] of the next step; those of the last one where there is none."""
        loads = self.row.schedule.loads
        if not self.n_steps:
            return np.zeros((len(loads), N_LOADS), dtype=np.int64)
        return loads[:, :, min(self.position, self.stop - 1)]

    def begin_round(self, *, waits: bool) -> None:
        """A round is a step; where rows wait for each other's blocks, up to the next emission."""
        self.begin = self.position
        self.stop = min(self.position + 1, self.n_steps)
        if waits and not self.is_over:
            later = np.flatnonzero(self.row.schedule.emitted_tokens[self.position :])
            self.stop = self.position + int(later[0]) + 1 if len(later) else self.n_steps


class OneByOne:
    """Rows in the order in which they joined."""

    def __init__(self, deployment: Deployment) -> None:
        """Without rows."""
        self.account = CostAccount()
        self._deployment = deployment
        self._waits = deployment.batching.WAITS_FOR_BLOCKS
        self._places: dict[Row, _Place] = {}
        self._finished: dict[Row, float] = {}
        self._round_left = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row has a step to take."""
        return all(place.is_over for place in self._places.values())

    @property
    def at_boundary(self) -> bool:
        """Whether rows may join and leave now."""
        return self._round_left == 0

    @property
    def next_kv_bytes(self) -> float:
        """Cache that all rows hold during the next step."""
        if self.at_boundary:
            self._begin_round()
        return sum(place.row.held_bytes(place.stop) for place in self._places.values())

    @property
    def next_query_tokens(self) -> int:
        """Tokens that go through the passes of the next step."""
        if self.at_boundary:
            self._begin_round()
        return sum(int(place.loads()[:, QUERY].sum()) for place in self._places.values())

    def start(self, row: Row) -> None:
        """*row* decodes from its position on."""
        place = _Place(row, row.position)
        self._places[row] = place
        if place.is_over:
            self._finished[row] = np.nan

    def drop(self, row: Row) -> None:
        """Take out a row that is not over."""
        place = self._places.pop(row)
        row.position = place.position
        row.ends_s.append(np.array(place.ends_s))

    def leave(self, row: Row) -> None:
        """Take out a row that is over."""
        self.drop(row)

    def _begin_round(self) -> None:
        for place in self._places.values():
            place.begin_round(waits=self._waits)

    def upcoming(
        self,
        most_steps: int,  # noqa: ARG002 (the interface)
        *,
        until_finish: bool,  # noqa: ARG002 (the interface)
        quiet_s: float,  # noqa: ARG002 (the interface)
    ) -> Upcoming:
        """The next step."""
        return self._priced(None, 0)

    def _priced(self, chunks: IntArray | None, n_emitting: int) -> Upcoming:
        places = list(self._places.values())
        if self.at_boundary:
            self._begin_round()
            self._round_left = max(place.stop - place.begin for place in places)
        loads = np.stack([place.loads() for place in places], axis=2)[..., None]
        passes = next(place.row.schedule.passes for place in places if place.stop > place.begin)
        ends_round = self._round_left == 1
        emitted = [place.emitted_tokens if ends_round else 0 for place in places]
        n_emitting += sum(tokens > 0 for tokens in emitted)
        cost = price_steps(
            self._deployment,
            passes,
            loads,
            emitting_rows=np.array([float(n_emitting)]),
            chunks=chunks,
        )
        self.account.add(cost, 1)
        query = loads[:, QUERY].sum(axis=(0, 2))
        counts = (len(places), (query > 0).sum(), query.sum(), sum(emitted))
        return Upcoming(
            seconds=cost.seconds,
            counts=np.array(counts, dtype=float)[:, None],
            kv_bytes=np.array([sum(place.row.held_bytes(place.stop) for place in places)]),
            forwards=sum(p.launches for p in passes),
        )

    def advance(self, ends_s: FloatArray) -> None:
        """One step was taken."""
        (end_s,) = ends_s
        self._round_left -= 1
        for place in self._places.values():
            if place.position < place.stop:
                place.position += 1
                place.ends_s.append(end_s)
        if self._round_left:
            return
        for row, place in self._places.items():
            if place.stop > place.begin:
                # What a block emits comes out when the slowest of the round is done.
                place.ends_s[-1] = end_s
                if place.is_over:
                    self._finished[row] = end_s

    def take_finished(self) -> dict[Row, float]:
        """Rows that came to their end, and when."""
        finished, self._finished = self._finished, {}
        return finished

    def prefill(self, chunks: tuple[Chunk, ...]) -> tuple[float, int]:
        """(seconds, query tokens of all passes) of a forward over prompts."""
        passes, loads = prefill_passes(self._deployment, chunks)
        rows = np.array([float(emitting(chunks))])
        cost = price_steps(self._deployment, passes, loads, emitting_rows=rows, prefill=True)
        self.account.add(cost, 1)
        return float(cost.seconds[0]), int(loads[:, QUERY].sum())

    def mixed(self, chunks: tuple[Chunk, ...]) -> Upcoming:
        """The next step with prompt *chunks* in its last target pass."""
        return self._priced(chunk_loads(chunks), emitting(chunks))

    def settle(self) -> None:
        """The account is always up to date."""
