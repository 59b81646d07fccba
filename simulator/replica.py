"""Replica: one model on its GPUs, a queue, a batch, a cache, and the process that steps them."""

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import simpy

from simulator.deployment import Deployment
from simulator.grants import Grants
from simulator.kvcache import KvLedger
from simulator.prepared import Preparation
from simulator.prompts import Chunk, next_tokens, prefill_passes
from simulator.records import BLOCK, RejectedRecord, RequestRecord, RunRecords
from simulator.request import Request
from simulator.row import Row
from simulator.step_cost import CostAccount
from simulator.stepping import Stepping
from simulator.stepping.upcoming import FloatArray

# More than any stepping prices at once.
MANY_STEPS: Final = 1 << 20


@dataclass(eq=False)
class Replica:
    """Admits, fills, steps and finishes requests, in the order in which they came.

    An iteration: whoever is over leaves, the rows that decode are granted the cache of their next
    step (the youngest is preempted while it does not fit), waiting requests join, and then there is
    a prefill forward, a decode step, or both in one.
    """

    environment: simpy.Environment
    deployment: Deployment
    ledger: KvLedger
    stepping: Stepping
    records: RunRecords
    index: int = 0
    stops_at_finish: bool = True
    """Whether somebody must know of a finish when it happens."""
    runs_ahead: bool = False
    """Whether the replica need not wait for the clock where nothing else happens meanwhile, since
    nobody waits for what it does."""
    has_no_others: bool = False
    """Whether there is no other replica."""
    hand_over: Callable[[Row], None] | None = None
    """Takes rows whose prompts are filled to another replica; None where they decode here."""
    waiting: deque[Row] = field(default_factory=deque)
    live: dict[Row, None] = field(default_factory=dict)
    """Rows in the batch, in the order in which they joined."""
    _filling: dict[Row, None] = field(default_factory=dict)
    _fills_next: bool = True
    """Whether it is a prefill's turn, where prefill and decode take turns."""
    _over: dict[Row, float] = field(default_factory=dict)
    """Rows that are over but still in the batch, and when they were."""
    _set_some_back: bool = False
    """Whether somebody was preempted since the last step."""
    _sleeps: bool = False
    """Whether the process is in the middle of steps that a newcomer may cut short."""

    def __post_init__(self) -> None:
        """Start the process."""
        deployment = self.deployment
        self._engine, self._batching = deployment.engine, deployment.batching
        self._preparation = Preparation(deployment)
        self._max_batch = deployment.max_batch
        self._grants = Grants(deployment, self.ledger)
        self._leaves_at_once = self._batching.leaves(1, 2) == 1
        self._prefill_launches = len(prefill_passes(deployment, [(1, 0, 0)])[0])
        self._now = 0.0
        self._arrival = self.environment.event()
        self._process = self.environment.process(self._run())

    @property
    def is_alone(self) -> bool:
        """Whether whatever happens next is a request for this replica."""
        return self.runs_ahead and self.has_no_others

    @property
    def account(self) -> CostAccount:
        """Where the time went, up to now."""
        self.stepping.settle()
        return self.stepping.account

    @property
    def load(self) -> int:
        """Requests here, waiting or in the batch."""
        return len(self.waiting) + len(self.live)

    def submit(self, request: Request) -> simpy.Event:
        """Queue *request*; the event happens when it is finished, or rejected."""
        done = self.environment.event()
        self._arrive(Row(request, done))
        return done

    def enqueue(self, request: Request) -> None:
        """Queue *request*, whose end nobody waits for."""
        self._arrive(Row(request))

    def _arrive(self, row: Row) -> None:
        request = row.request
        reason = self._grants.why_never(request)
        # Which blocks are forgotten first depends on when their users finished.
        self.stops_at_finish |= self._grants.shares(request)
        if not reason:
            self.take(row)
            return
        self.records.rejected.append(
            RejectedRecord(
                request.index,
                request.arrival_s,
                request.prompt_tokens,
                request.output_tokens,
                reason,
            )
        )
        if row.done is not None:
            row.done.succeed()

    def take(self, row: Row) -> None:
        """Queue *row*, which fits."""
        was_empty = not self.waiting
        self.waiting.append(row)
        self._wake()
        if self._sleeps and was_empty:
            self._sleeps = False
            self._process.interrupt()

    def release(self, row: Row) -> None:
        """The cache of *row* has gone to another replica."""
        self._grants.filled(row)
        self._grants.let_go(row)
        self._wake()

    def _wake(self) -> None:
        if not self._arrival.triggered:
            self._arrival.succeed()

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            if self.stepping.at_boundary:
                told = self._leave()
                if not self.waiting and not self.live:
                    yield self._something_new()
                    self._now, told = self.environment.now, True
                if told:
                    # Whoever acts at this very instant does so first, such as users whose requests
                    # finished and who send their next ones.
                    yield self.environment.timeout(0)
                self._set_some_back = self._preempt()
                if not self._set_some_back and self._admit():
                    self._set_some_back = self._preempt()
                self.ledger.make_room()
                if not self.live:
                    # Caches on their way to other replicas leave no room yet.
                    yield self._something_new()
                    self._now = self.environment.now
                    continue
            yield from self._iterate()

    def _until(self, time_s: float) -> Generator[simpy.Event, Any, None]:
        """Be at *time_s*: at once, where nothing else happens before."""
        environment = self.environment
        if self.runs_ahead and time_s < environment.peek():
            self._now = time_s
            return
        yield environment.timeout(time_s - environment.now)
        self._now = environment.now

    def _something_new(self) -> simpy.Event:
        """Happens when a request arrives or a cache has left."""
        self._arrival = self.environment.event()
        return self._arrival

    def _iterate(self) -> Generator[simpy.Event, Any, None]:
        """A prefill forward, steps of the rows that decode, or both in one."""
        order, decodes = self._engine.prefill_order, not self.stepping.is_empty
        fills = bool(self._filling) and self.stepping.at_boundary
        if fills and decodes and order == "mixed":
            yield from self._mixed()
        elif fills and (not decodes or order == "first" or self._fills_next):
            self._fills_next = False
            yield from self._prefill()
        elif decodes:
            self._fills_next = True
            # Who was set back may join again at the next step already.
            takes_one = bool(self._filling) or self._set_some_back
            yield from self._decode(1 if takes_one else MANY_STEPS)

    def _preempt(self) -> bool:
        """Grant the cache of the next step; whether somebody had to give up the own for it."""
        if not (self._grants.grows or self.waiting or self._filling):
            return False
        ledger, preempted = self.ledger, False
        ledger.decoding_bytes = self.stepping.next_kv_bytes
        while ledger.used_bytes > ledger.capacity_bytes:
            self._set_back(next(row for row in reversed(self.live) if row not in self._over))
            ledger.decoding_bytes = self.stepping.next_kv_bytes
            preempted = True
        return preempted

    def _set_back(self, row: Row) -> None:
        """*row* loses its cache and goes back to the head of the queue."""
        del self.live[row]
        if row in self._filling:
            del self._filling[row]
            self.ledger.free(row.request.index)
        else:
            self.stepping.drop(row)
        self._grants.let_go(row)
        row.preemptions += 1
        self.waiting.appendleft(row)

    def _admit(self) -> bool:
        """Take waiting requests into the batch, in order, while batching and cache allow.

        Whether some of them need no prefill and decode at once.
        """
        if not self.waiting:
            return False
        room = self._batching.admits(len(self.live), self._max_batch)
        joining: list[Row] = []
        while self.waiting and room > 0:
            if not self._grants.grant(self.waiting[0], beside_others=bool(self.live)):
                break
            joining.append(self.waiting.popleft())
            self.live[joining[-1]] = None
            room -= 1
        new = [row for row in joining if row.prepared is None]
        if new:
            prepared = self._preparation.prepare([row.request for row in new])
            for row, own in zip(new, prepared, strict=True):
                row.prepared, row.admitted_s = own, self._now
        for row in joining:
            row.goal_tokens = row.tokens_before_next
            if row.comes_filled:
                row.filled_tokens, row.comes_filled = row.goal_tokens, False
            else:
                cached = len(row.prefix) * row.request.prefix_block_tokens
                row.filled_tokens = min(cached, row.goal_tokens)
                row.cached_prefix_tokens += row.filled_tokens
            self._filling[row] = None
        ready = [row for row in joining if row.left_tokens <= 0]
        self._fill(ready, [(0, 0, 0)] * len(ready))
        return bool(ready)

    def _next_chunks(self, budget_tokens: int) -> list[Chunk]:
        """What of each prompt that is being filled goes into the next forward."""
        rows = list(self._filling)
        taken = next_tokens(
            [row.left_tokens for row in rows],
            chunk_tokens=self._engine.prefill_chunk_tokens,
            budget_tokens=budget_tokens,
        )
        return [
            (tokens, row.filled_tokens, row.emits_at_end if tokens == row.left_tokens else 0)
            for row, tokens in zip(rows, taken, strict=True)
        ]

    def _prefill(self) -> Generator[simpy.Event, Any, None]:
        """One prefill forward."""
        rows = list(self._filling)
        chunks = self._next_chunks(self._engine.prefill_batch_tokens)
        start_s = self._now
        seconds, query_tokens = self.stepping.prefill(tuple(chunks))
        yield from self._until(start_s + seconds)
        counts = 0, query_tokens, 0
        self._record_one(start_s, seconds, chunks, counts, self._prefill_launches)
        self._fill(rows, chunks)

    def _mixed(self) -> Generator[simpy.Event, Any, None]:
        """A step of the rows that decode, with as many prompt tokens as the budget leaves."""
        rows = list(self._filling)
        budget = self._engine.prefill_batch_tokens - self.stepping.next_query_tokens
        chunks = self._next_chunks(max(0, budget))
        present = tuple(chunk for chunk in chunks if chunk[0])
        if not present:
            yield from self._decode(1)
            return
        step = self.stepping.mixed(present)
        start_s, seconds = self._now, float(step.seconds[0])
        yield from self._until(start_s + seconds)
        _, alive, query_tokens, emitted = step.counts[:, 0].tolist()
        query_tokens += sum(tokens for tokens, _, _ in present)
        counts = alive, query_tokens, emitted
        self._record_one(start_s, seconds, chunks, counts, step.forwards, prefill=False)
        self.stepping.advance(np.array([self._now]))
        self._fill(rows, chunks)

    def _record_one(  # noqa: PLR0913 (what a step is)
        self,
        start_s: float,
        seconds: float,
        chunks: Sequence[Chunk],
        counts: tuple[float, float, float],
        forwards: int,
        *,
        prefill: bool = True,
    ) -> None:
        """A step with *chunks*; *counts* are rows and output tokens without, query tokens with."""
        alive, query_tokens, emitted = counts
        for tokens, _, first in chunks:
            alive += tokens > 0
            emitted += first
        used_bytes = self.ledger.used_bytes
        step = np.array(
            (start_s, seconds, len(self.live), alive, query_tokens, emitted, used_bytes)
        )
        self.records.add_block(
            step[:, None], forwards=forwards, prefill=prefill, replica=self.index
        )

    def _fill(self, rows: list[Row], chunks: Sequence[Chunk]) -> None:
        """*rows* have the tokens of *chunks* in the cache; those that are filled decode."""
        for row, (count, _, _) in zip(rows, chunks, strict=True):
            row.filled_tokens += count
            row.prefill_forwards += count > 0
            if row.left_tokens > 0:
                continue
            del self._filling[row]
            if row.prefill_end_s is None:
                row.prefill_end_s = self._now
            if self.hand_over is not None and row.position < row.schedule.n_steps:
                del self.live[row]
                row.comes_filled = True
                self.hand_over(row)
                continue
            self._grants.filled(row)
            self.stepping.start(row)

    def _decode(self, most_steps: int) -> Generator[simpy.Event, Any, None]:
        """Steps with the batch as it is, until somebody joins, leaves or lacks room."""
        until_finish = self.stops_at_finish or not self._leaves_at_once or bool(self.waiting)
        start_s = self._now
        change_s = self.environment.peek() if self.is_alone else math.inf
        steps = self.stepping.upcoming(
            most_steps, until_finish=until_finish, quiet_s=change_s - start_s
        )
        ledger, n_steps = self.ledger, len(steps.seconds)
        block = np.empty((len(BLOCK), n_steps))
        used_bytes = np.add(steps.kv_bytes, ledger.other_bytes, out=block[-1])
        if self._grants.grows and n_steps > 1 and used_bytes.max() > ledger.capacity_bytes:
            n_steps = int((used_bytes > ledger.capacity_bytes).argmax())
        clock_s = np.empty(n_steps + 1)
        clock_s[0], clock_s[1:] = start_s, steps.seconds[:n_steps]
        clock_s.cumsum(out=clock_s)
        ends_s = clock_s[1:]
        if ends_s[-1] > change_s and not self._batching.WAITS_FOR_BLOCKS:
            n_steps = int(ends_s.searchsorted(change_s)) + 1
            ends_s = ends_s[:n_steps]
        n_steps = yield from self._sleep(ends_s)
        ends_s = ends_s[:n_steps]
        ends_s[-1] = self._now
        block = block[:, :n_steps]
        block[0], block[1] = clock_s[:n_steps], steps.seconds[:n_steps]
        block[2:6] = steps.counts[:, :n_steps]
        block[2] += len(self._filling)
        self.records.add_block(block, forwards=steps.forwards, prefill=False, replica=self.index)
        ledger.decoding_bytes = float(steps.kv_bytes[n_steps - 1])
        ledger.make_room()
        self.stepping.advance(ends_s)

    def _sleep(self, ends_s: FloatArray) -> Generator[simpy.Event, Any, int]:
        """Wait for the steps that end at *ends_s*; how many were taken before a newcomer came.

        The one that is under way then is taken to its end.
        """
        environment, n_steps = self.environment, len(ends_s)
        # Whoever is alone knew when the next one comes.
        is_cuttable = not (self.is_alone or self._batching.WAITS_FOR_BLOCKS)
        self._sleeps = n_steps > 1 and is_cuttable
        try:
            yield from self._until(float(ends_s[-1]))
        except simpy.Interrupt:
            n_steps = int(ends_s.searchsorted(environment.now)) + 1
            yield environment.timeout(max(0.0, float(ends_s[n_steps - 1]) - environment.now))
            self._now = environment.now
        self._sleeps = False
        return n_steps

    def _leave(self) -> bool:
        """Take finished requests out of the batch, as the batching policy says.

        Whether somebody was waiting to be told.
        """
        self._over |= self.stepping.take_finished()
        if not self._over:
            return False
        told = False
        leaving = self._batching.leaves(len(self._over), len(self.live))
        for row in list(self._over)[:leaving]:
            over_s = self._over.pop(row)
            del self.live[row]
            self.stepping.leave(row)
            self._grants.let_go(row)
            ran_on = self._leaves_at_once and not math.isnan(over_s)
            self._finish(row, over_s if ran_on else self._now)
            told |= row.done is not None
        if not self.live:
            self.ledger.decoding_bytes = 0.0
        return told

    def _finish(self, row: Row, finished_s: float) -> None:
        own, request = row.own, row.request
        # An answer that ends at once has nothing in it; it is told when it is over.
        first_s, first_tokens, gaps_s = own.emissions(row.ends_s, row.prefill_end_s, finished_s)
        record = RequestRecord(
            request=request.index,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            arrival_s=request.arrival_s,
            admitted_s=row.admitted_s,
            first_token_s=first_s,
            finished_s=finished_s,
            first_tokens=first_tokens,
            decode_steps=own.schedule.n_steps,
            forwards=own.forwards,
            prefill_forwards=row.prefill_forwards,
            prefill_emitted_tokens=own.schedule.prefill_emits_tokens,
            replica=self.index,
            preemptions=row.preemptions,
            cached_prefix_tokens=row.cached_prefix_tokens,
        )
        self.records.add_request(record, gaps_s)
        if row.done is not None:
            row.done.succeed()
