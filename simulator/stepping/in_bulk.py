"""Many steps at once: what a step costs is a function of sums and maxima over the rows.

Every row's terms are added up once, when it joins, over all the steps that it will take; the next
steps of the batch are a slice of the totals, whoever comes to an end in between.
"""

import heapq
from itertools import count
from typing import Final

import numpy as np

from simulator.batch_price import KV_BYTES, QUERY_TOKENS, Terms
from simulator.deployment import Deployment
from simulator.prompts import Chunk
from simulator.row import Row
from simulator.schedule import N_LOADS
from simulator.stepping.priced_in_bulk import Columns, PricedInBulk
from simulator.stepping.running_totals import RunningTotals
from simulator.stepping.step_ends import StepEnds
from simulator.stepping.upcoming import FloatArray, Upcoming

LEAST_STEPS: Final = 8
MOST_STEPS: Final = 256
"""Steps priced together: twice as many as were taken last, within these bounds."""


class InBulk(PricedInBulk):
    """The rows that decode, as running totals over the steps to come."""

    def __init__(self, deployment: Deployment) -> None:
        """Without rows."""
        super().__init__(deployment)
        self._step = 0
        """Steps that were taken."""
        self._began: dict[Row, int] = {}
        """Rows that have steps to take, and the step at which each was at its position."""
        self._over: dict[Row, None] = {}
        """Rows that came to their end and ride along until they are taken out."""
        self._ends: list[tuple[int, int, Row]] = []
        """Heap of (step behind a row's last one, order of joining, row)."""
        self._order = count()
        self._last_end = 0
        self._totals: RunningTotals | None = None
        self._step_ends = StepEnds()
        self._ahead = LEAST_STEPS
        self._step_s = 1.0
        """What a step took last."""

    @property
    def is_empty(self) -> bool:
        """Whether no row has a step to take."""
        return not self._began

    @property
    def at_boundary(self) -> bool:
        """Rows may always join and leave."""
        return True

    @property
    def next_kv_bytes(self) -> float:
        """Cache that all rows hold during the next step."""
        riders = sum(row.held_bytes(row.schedule.n_steps) for row in self._over)
        return riders + (self._totals.kv_bytes(self._step) if self._totals else 0.0)

    @property
    def next_query_tokens(self) -> int:
        """Tokens that go through the passes of the next step."""
        return int(self._next(1)[0][QUERY_TOKENS, 0])

    def start(self, row: Row) -> None:
        """*row* decodes from its position on."""
        n_steps = row.schedule.n_steps - row.position
        if n_steps <= 0:
            self._over[row] = None
            self._finished[row] = np.nan
            return
        terms, kv_bytes = self._from(row, row.position)
        if self._totals is None:
            self._totals = RunningTotals(len(terms.sums), len(terms.maxima))
        self._totals.add(self._step, terms, kv_bytes)
        self._began[row] = self._step
        stop = self._step + n_steps
        heapq.heappush(self._ends, (stop, next(self._order), row))
        self._last_end = max(self._last_end, stop)

    def _from(self, row: Row, position: int) -> tuple[Terms, FloatArray]:
        """Terms of *row*, and the cache that it holds, at its steps from *position* on."""
        terms, kv_bytes = self.terms_of(row), row.own.kv_bytes
        if row.prefix_bytes:
            kv_bytes = kv_bytes - row.prefix_bytes
        if position:
            terms = Terms(terms.sums[:, position:], terms.maxima[:, position:])
            kv_bytes = kv_bytes[position:]
        return terms, kv_bytes

    def _last_terms(self, row: Row) -> Terms:
        """The last step of a row that is over, once more, without what it emitted."""
        schedule = row.schedule
        last = schedule.loads[:, :, None, -1:]
        if not schedule.n_steps:
            last = np.zeros((len(schedule.passes), N_LOADS, 1, 1), dtype=np.int64)
        terms = self.price(schedule.passes).terms(last, None)
        terms.sums[KV_BYTES] = row.held_bytes(schedule.n_steps)
        return terms

    def drop(self, row: Row) -> None:
        """Take out a row that is not over."""
        began = self._began.pop(row)
        row.ends_s.append(self._step_ends.between(began, self._step))
        row.position += self._step - began
        self._ends = [entry for entry in self._ends if entry[2] is not row]
        heapq.heapify(self._ends)
        self._last_end = max((stop for stop, _, _ in self._ends), default=self._step)
        totals = self._totals
        if totals is None:
            return
        lonely = totals.remove(self._step, *self._from(row, row.position))
        if lonely:
            totals.forget_maxima(lonely)
            for other, start in self._began.items():
                self._raise(totals, other, other.position + self._step - start, lonely)

    def _raise(self, totals: RunningTotals, row: Row, position: int, steps: range) -> None:
        """Let the maxima of *steps* be at least those of *row*, whose next step is *position*."""
        first = position + steps.start - self._step
        last = min(first + len(steps), row.schedule.n_steps)
        if first < last:
            terms = self.terms_of(row)
            part = Terms(terms.sums[:, first:last], terms.maxima[:, first:last])
            totals.raise_maxima(steps.start, part)

    def leave(self, row: Row) -> None:
        """Take out a row that is over."""
        self._over.pop(row, None)

    def upcoming(self, most_steps: int, *, until_finish: bool, quiet_s: float) -> Upcoming:
        """The next steps of the batch as it is."""
        ahead = self._ahead
        if quiet_s < ahead * self._step_s:
            # The step that is under way by then, and one more where steps become shorter.
            ahead = int(quiet_s / self._step_s) + 2
        n_steps = min(most_steps, ahead, self._last_end - self._step)
        if until_finish:
            n_steps = min(n_steps, self._ends[0][0] - self._step)
        steps = self.priced(*self._next(n_steps))
        self._step_s = float(steps.seconds[0])
        return steps

    def _next(self, n_steps: int) -> Columns:
        """Sums and maxima of the next steps; copies, since the totals go on changing."""
        if self._totals is None:
            message = "no row has a step to take"
            raise RuntimeError(message)
        sums, maxima = self._totals.over(self._step, n_steps)
        if not self._over:
            return sums.copy(), maxima.copy()
        riders = [self._last_terms(row) for row in self._over]
        sums = sums + np.sum([terms.sums for terms in riders], axis=0)
        largest = np.max([terms.maxima for terms in riders], axis=0)
        return sums, np.maximum(maxima, largest)

    def mixed(self, chunks: tuple[Chunk, ...]) -> Upcoming:
        """The next step with prompt *chunks* in its last target pass."""
        return self.priced(*self._next(1), chunks)

    def advance(self, ends_s: FloatArray) -> None:
        """As many steps as *ends_s* were taken."""
        n_steps = len(ends_s)
        was_whole = self.take(n_steps)
        wanted = 2 * (self._ahead if was_whole else n_steps)
        self._ahead = min(max(wanted, LEAST_STEPS), MOST_STEPS)
        if not self._step_ends.has_room(n_steps):
            self._step_ends.forget_before(min(self._began.values()))
        self._step_ends.push(ends_s)
        self._step += n_steps
        while self._ends and self._ends[0][0] <= self._step:
            stop, _, row = heapq.heappop(self._ends)
            ends = self._step_ends.between(self._began.pop(row), stop)
            row.ends_s.append(ends)
            self._finished[row] = float(ends[-1])
            self._over[row] = None
