"""A decoder under a clock: when each of its forwards began, and when a batch was over."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernels_ref.capture.plan import Plan
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.query import Cache, Model, ModelFacts, Prediction, Query

Time = Callable[[], float]


@dataclass
class ClockedModel:
    """A model that notes when it is asked."""

    inner: Model
    now: Time
    asked_s: list[float] = field(default_factory=list)

    @property
    def facts(self) -> ModelFacts:
        """The model's."""
        return self.inner.facts

    def new_cache(self, rows: int, capacity_tokens: int) -> Cache:
        """The model's."""
        return self.inner.new_cache(rows, capacity_tokens)

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The model's."""
        self.asked_s.append(self.now())
        return self.inner.forward(queries, cache)


@dataclass(frozen=True)
class BatchTimes:
    """One batch: its forwards in order, each with what followed it until the next one."""

    begin_s: float
    """Before the first forward: the cache, and what is asked first."""
    forward_s: tuple[float, ...]
    last_forward: tuple[int, ...] = ()
    """Of each request, the forward after which it was over."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.begin_s + sum(self.forward_s)

    def latency_s(self) -> list[float]:
        """Of each request, from the batch's beginning until it is over."""
        return [self.begin_s + sum(self.forward_s[: last + 1]) for last in self.last_forward]

    def fastest(self, other: "BatchTimes") -> "BatchTimes":
        """Each forward as fast as it was in one of both; ValueError where they did not do alike."""
        pairs = zip(self.forward_s, other.forward_s, strict=True)
        forward_s = tuple(min(pair) for pair in pairs)
        return BatchTimes(min(self.begin_s, other.begin_s), forward_s, self.last_forward)


def clocked_batch(plan: Plan, problems: range, now: Time) -> BatchTimes:
    """Decode *problems* of *plan* together."""
    requests: list[Any] = [plan.request(problem) for problem in problems]
    model = ClockedModel(plan.source.model, now)
    began = now()
    decode_batch(model, requests, plan.policy.decode(requests, plan.parameters))
    ends = [*model.asked_s[1:], now()]
    forward_s = tuple(end - start for start, end in zip(model.asked_s, ends, strict=True))
    return BatchTimes(model.asked_s[0] - began, forward_s, _last_forwards(requests))


def _last_forwards(requests: Sequence[Any]) -> tuple[int, ...]:
    """Rows are in every forward until they are over, but for the prefill of others."""
    kinds = [[step.kind for step in _forwards(request)] for request in requests]
    prefills = any("prefill" in each for each in kinds)
    return tuple(len(each) - 1 + (prefills and "prefill" not in each) for each in kinds)


def _forwards(request: Any) -> Sequence[Any]:  # noqa: ANN401 (each kind of record has its own)
    record = request.record
    steps: Sequence[Any] = record.steps if hasattr(record, "steps") else record.forwards
    return steps


@dataclass
class Run:
    """A plan that is decoded again and again, and the fastest that each of its forwards was."""

    plan: Plan
    now: Time
    known: dict[int, BatchTimes] = field(default_factory=dict)
    """Of each batch."""
    taken_s: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """Of each batch and visit, by the clock and by the wall."""

    @property
    def n_batches(self) -> int:
        """Batches of prompts."""
        return -(-len(self.plan.prompts) // self.plan.batch)

    def visit(self, batch: int) -> None:
        """Decode one batch of prompts once more."""
        first = batch * self.plan.batch
        problems = range(first, min(first + self.plan.batch, len(self.plan.prompts)))
        started = time.perf_counter()
        found = clocked_batch(self.plan, problems, self.now)
        wall_s = time.perf_counter() - started
        self.known[batch] = self.known.get(batch, found).fastest(found)
        self.taken_s.setdefault(batch, []).append((found.seconds, wall_s))

    @property
    def fastest(self) -> list[BatchTimes]:
        """The batches in order."""
        return [self.known[batch] for batch in range(self.n_batches)]

    @property
    def whole_s(self) -> list[float]:
        """Of each repeat of all batches."""
        return self._sums(0)

    @property
    def wall_s(self) -> list[float]:
        """The same by the wall clock."""
        return self._sums(1)

    def _sums(self, which: int) -> list[float]:
        repeats = zip(*(self.taken_s[batch] for batch in range(self.n_batches)), strict=False)
        return [sum(each[which] for each in repeat) for repeat in repeats]
