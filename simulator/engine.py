"""The engine: SimPy's clock, one replica that admits, prefills, steps and finishes requests."""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from simulator import workloads
from simulator.deployment import Deployment
from simulator.kvcache import KvLedger
from simulator.prefill import next_forward
from simulator.records import RequestRecord, RunRecords, StepRecord
from simulator.request import Request
from simulator.schedule import QUERY, IntArray, Pass, Schedule, loads
from simulator.step_cost import CostAccount, StepCost, price_steps

# Steps priced together while the batch stays as it is; more only wastes what an arrival discards.
STRETCH_STEPS = 256


@dataclass
class Row:
    """A request in the batch and how far it is."""

    request: Request
    schedule: Schedule
    done: simpy.Event
    admitted_s: float
    prefilled_tokens: int = 0
    prefill_forwards: int = 0
    prefill_end_s: float | None = None
    first_decode_step: int = 0
    position: int = 0

    @property
    def finished(self) -> bool:
        """Whether everything is out."""
        return self.prefill_end_s is not None and self.left == 0

    @property
    def decoding(self) -> bool:
        """Whether the prompt is in the cache and tokens are still to come."""
        return self.prefill_end_s is not None and self.left > 0

    @property
    def left(self) -> int:
        """Decode steps to go."""
        return self.schedule.n_steps - self.position

    def window(self, n_steps: int) -> IntArray:
        """Loads of the next *n_steps*, [passes, 6, n]; a finished row repeats its last step."""
        if self.schedule.n_steps == 0:
            return np.zeros((*self.schedule.loads.shape[:2], n_steps), dtype=np.int64)
        if self.finished:
            return np.repeat(self.schedule.loads[:, :, -1:], n_steps, axis=2)
        return self.schedule.loads[:, :, self.position : self.position + n_steps]


@dataclass
class Replica:
    """One model on its GPUs: a queue, a batch, a cache, and the process that steps them."""

    environment: simpy.Environment
    deployment: Deployment
    ledger: KvLedger
    records: RunRecords = field(default_factory=RunRecords)
    account: CostAccount = field(default_factory=CostAccount)
    waiting: deque[tuple[Request, simpy.Event]] = field(default_factory=deque)
    live: list[Row] = field(default_factory=list)
    decode_end_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the process."""
        self._arrival = self.environment.event()
        self.environment.process(self._run())

    def submit(self, request: Request) -> simpy.Event:
        """Queue *request*; the event happens when it is finished."""
        done = self.environment.event()
        self.waiting.append((request, done))
        if not self._arrival.triggered:
            self._arrival.succeed()
        return done

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            if not self.waiting and not self.live:
                self._arrival = self.environment.event()
                yield self._arrival
            # Users whose requests finished at this instant send their next ones first.
            yield self.environment.timeout(0)
            self._admit()
            if not self.live:
                message = f"request {self.waiting[0][0].index} can never fit in the KV cache"
                raise RuntimeError(message)
            unfilled = [row for row in self.live if row.prefill_end_s is None]
            if unfilled:
                yield from self._prefill(unfilled)
            unfilled = [row for row in unfilled if row.prefill_end_s is None]
            if unfilled and self.deployment.engine.prefill_order == "first":
                continue
            self._leave()
            if any(row.decoding for row in self.live):
                yield from self._decode(1 if unfilled else STRETCH_STEPS)
                self._leave()

    def _may_admit(self) -> bool:
        """Whether the first waiting request could join the batch now."""
        if not self.waiting:
            return False
        room = self.deployment.batching.admits(len(self.live), self.deployment.max_batch)
        tokens = self.waiting[0][0].total_tokens
        return room > 0 and self.ledger.fits(self.deployment.sequence_bytes(tokens))

    def _admit(self) -> None:
        """Take waiting requests into the batch, in order, while batching and cache allow."""
        room = self.deployment.batching.admits(len(self.live), self.deployment.max_batch)
        joining: list[tuple[Request, simpy.Event]] = []
        while self.waiting and room > 0:
            request, done = self.waiting[0]
            n_bytes = self.deployment.sequence_bytes(request.total_tokens)
            if not self.ledger.fits(n_bytes):
                break
            self.waiting.popleft()
            self.ledger.allocate(request.index, n_bytes)
            joining.append((request, done))
            room -= 1
        if joining:
            schedules = self.deployment.schedules([request for request, _ in joining])
            self.live += [
                Row(request, schedule, done, self.environment.now)
                for (request, done), schedule in zip(joining, schedules, strict=True)
            ]

    def _prefill(self, rows: list[Row]) -> Generator[simpy.Event, Any, None]:
        """One prefill forward over the prompts of *rows*; a prompt too short for one is done."""
        engine = self.deployment.engine
        left = np.array([row.schedule.prefill_tokens - row.prefilled_tokens for row in rows])
        query = next_forward(
            left, chunk_tokens=engine.prefill_chunk_tokens, batch_tokens=engine.prefill_batch_tokens
        )
        ends = query == left
        if query.any():
            cost, passes = self._price_prefill(rows, query, ends)
            start = self.environment.now
            yield self.environment.timeout(float(cost.seconds[0]))
            self.account.add(cost, 1)
            emitted = sum(
                row.schedule.prefill_emits_tokens
                for row, end in zip(rows, ends, strict=True)
                if end
            )
            self._record(start, query, emitted, len(passes), prefill=True)
        for row, tokens, end in zip(rows, query, ends, strict=True):
            row.prefilled_tokens += int(tokens)
            row.prefill_forwards += int(tokens > 0)
            if end:
                row.prefill_end_s = self.environment.now
                row.first_decode_step = len(self.decode_end_s)

    def _price_prefill(
        self, rows: list[Row], tokens: IntArray, ends: npt.NDArray[np.bool_]
    ) -> tuple[StepCost, list[Pass]]:
        """The target's prefill, and the drafter's: it takes in the target's features."""
        samples = np.array([row.schedule.prefill_emits_tokens for row in rows])
        query, context = (
            tokens[:, None],
            np.array([row.prefilled_tokens for row in rows])[:, None],
        )
        logits = (ends * samples)[:, None]
        zero = np.zeros_like(query)
        target = np.stack([query, context, logits, zero, zero, zero])
        stacked, passes = [target], [Pass("prefill", loads(1, query=0, context=0))]
        drafter = self.deployment.drafter
        if drafter is not None:
            through = query if drafter.kind == "eagle3" else zero
            stacked.append(np.stack([through, context, zero, zero, query, zero]))
            kind = self.deployment.policy.USES.drafter or ""
            passes.append(Pass("prefill", passes[0].loads, stack=kind))
        cost = price_steps(
            self.deployment,
            passes,
            np.stack(stacked),
            emitting_rows=logits.sum(axis=0).astype(float),
            prefill=True,
        )
        return cost, passes

    def _decode(self, most_steps: int) -> Generator[simpy.Event, Any, None]:
        """Steps with the batch as it is, until a row finishes or somebody may join."""
        rows = [row for row in self.live if row.prefill_end_s is not None]
        running = [row for row in rows if row.decoding]
        n_steps = min(most_steps, *(row.left for row in running))
        passes = running[0].schedule.passes
        stretch = np.stack([row.window(n_steps) for row in rows], axis=2)
        emitted = np.stack(
            [row.schedule.emitted_tokens[row.position : row.position + n_steps] for row in running]
        )
        emitting = (emitted > 0).sum(axis=0).astype(float)
        cost = price_steps(self.deployment, passes, stretch, emitting_rows=emitting)
        query = stretch[:, QUERY].sum(axis=0)
        forwards = sum(p.launches for p in passes)
        taken = 0
        for step in range(n_steps):
            start = self.environment.now
            yield self.environment.timeout(float(cost.seconds[step]))
            taken += 1
            self.decode_end_s.append(self.environment.now)
            self._record(start, query[:, step], int(emitted[:, step].sum()), forwards)
            if self._may_admit():
                break
        self.account.add(cost, taken)
        for row in running:
            row.position += taken

    def _record(
        self, start: float, query: IntArray, emitted: int, forwards: int, *, prefill: bool = False
    ) -> None:
        self.records.steps.append(
            StepRecord(
                start_s=start,
                seconds=self.environment.now - start,
                prefill=prefill,
                rows=int((query > 0).sum()),
                query_tokens=int(query.sum()),
                emitted_tokens=emitted,
                forwards=forwards,
                kv_used_bytes=self.ledger.used_bytes,
            )
        )

    def _leave(self) -> None:
        """Take finished requests out of the batch, as the batching policy says."""
        finished = [row for row in self.live if row.finished]
        leaving = finished[: self.deployment.batching.leaves(len(finished), len(self.live))]
        for row in leaving:
            self.live.remove(row)
            self.ledger.free(row.request.index)
            self._finish(row)

    def _finish(self, row: Row) -> None:
        schedule = row.schedule
        first = row.first_decode_step
        ends = np.array(self.decode_end_s[first : first + schedule.n_steps])
        times = ends[schedule.emitted_tokens > 0]
        tokens = schedule.emitted_tokens[schedule.emitted_tokens > 0]
        if schedule.prefill_emits_tokens:
            times = np.concatenate([[row.prefill_end_s or 0.0], times])
            tokens = np.concatenate([[schedule.prefill_emits_tokens], tokens])
        if not len(times):
            # An answer that ends at once has nothing in it; it is told when it is over.
            times, tokens = np.array([self.environment.now]), np.array([0])
        self.records.emission_gaps_s.append(np.diff(times))
        self.records.requests.append(
            RequestRecord(
                request=row.request.index,
                prompt_tokens=row.request.prompt_tokens,
                output_tokens=row.request.output_tokens,
                arrival_s=row.request.arrival_s,
                admitted_s=row.admitted_s,
                first_token_s=float(times[0]),
                finished_s=self.environment.now,
                first_tokens=int(tokens[0]),
                decode_steps=schedule.n_steps,
                forwards=schedule.n_steps * sum(p.launches for p in schedule.passes),
                prefill_forwards=row.prefill_forwards,
                prefill_emitted_tokens=schedule.prefill_emits_tokens,
            )
        )
        row.done.succeed()


def simulate(deployment: Deployment) -> Replica:
    """Run the scenario until every request is finished; the replica holds the records."""
    environment = simpy.Environment()
    parameters = deployment.scenario.workload
    capacity = deployment.memory(deployment.most_together).kv_capacity_bytes
    replica = Replica(environment, deployment, KvLedger(capacity))
    workload = workloads.workload(parameters.kind)
    workload.drive(environment, parameters, deployment.scenario.seed, replica.submit)
    environment.run()
    return replica
