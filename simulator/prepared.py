"""Prepared: the schedule of a request with what engines derive from it, made once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.deployment import Deployment
from simulator.request import Request
from simulator.schedule import CONTEXT, QUERY, TARGET, IntArray, Schedule

FloatArray = npt.NDArray[np.float64]

NO_TIMES: Final = np.zeros(0)
KEPT_STEPS: Final = 1_000_000
"""Steps of all schedules that are kept; a hundred bytes each, or two."""


@dataclass(eq=False)
class Prepared:
    """What a request does, and the cache that it holds at each of its decode steps."""

    schedule: Schedule
    kv_bytes: FloatArray
    """[steps], whole bytes on each GPU, prefix blocks of others included."""
    over_bytes: float
    """What it holds when it is over."""
    derived: dict[object, object] = field(default_factory=dict)
    """What others compute from the schedule, to be used again by equal requests; by who did."""
    is_kept: bool = False
    """Whether equal requests share this."""

    @cached_property
    def forwards(self) -> int:
        """Decode passes that the request takes part in."""
        return self.schedule.n_steps * sum(p.launches for p in self.schedule.passes)

    @cached_property
    def _emitting(self) -> IntArray | None:
        """Steps that emit something; None where all do."""
        steps = np.flatnonzero(self.schedule.emitted_tokens)
        return None if len(steps) == self.schedule.n_steps else steps

    @cached_property
    def _first_tokens(self) -> int:
        """Tokens of the first decode step that emits; none where none does."""
        emitted = self.schedule.emitted_tokens
        return int(emitted[emitted > 0][:1].sum())

    def emissions(
        self, pieces: Sequence[FloatArray], prefill_end_s: float | None, over_s: float
    ) -> tuple[float, int, FloatArray]:
        """(time of the first emission, its tokens, times between consecutive ones), in s.

        *pieces* are the ends of all decode steps; a request that emits nothing is told at *over_s*.
        """
        times = pieces[0] if len(pieces) == 1 else np.concatenate((NO_TIMES, *pieces))
        if self._emitting is not None:
            times = times[self._emitting]
        gaps_s = times[1:] - times[:-1]
        sampled = self.schedule.prefill_emits_tokens
        if not sampled or prefill_end_s is None:
            return (float(times[0]) if len(times) else over_s), self._first_tokens, gaps_s
        if len(times):
            gaps_s = np.concatenate(((float(times[0]) - prefill_end_s,), gaps_s))
        return prefill_end_s, sampled, gaps_s


class Preparation:
    """Prepares requests; at a constant pace those of equal lengths do the same."""

    def __init__(self, deployment: Deployment) -> None:
        """Nothing is kept yet."""
        self._deployment = deployment
        self._keeps = deployment.pace.replay == "constant"
        self._kept: dict[tuple[int, int], Prepared] = {}
        self._kept_steps = 0

    def prepare(self, requests: Sequence[Request]) -> list[Prepared]:
        """What *requests* do, which join the batch together."""
        if self._keeps:
            return [self._kept_of(request) for request in requests]
        schedules = self._deployment.schedules(requests)
        return [self._made(*pair) for pair in zip(requests, schedules, strict=True)]

    def _kept_of(self, request: Request) -> Prepared:
        lengths = request.prompt_tokens, request.output_tokens
        found = self._kept.get(lengths)
        if found is None:
            found = self._made(request, self._deployment.schedule(request))
            n_steps = found.schedule.n_steps
            if self._kept_steps + n_steps > KEPT_STEPS:
                self._kept, self._kept_steps = {}, 0
            found.is_kept = True
            self._kept[lengths] = found
            self._kept_steps += n_steps
        return found

    def _made(self, request: Request, schedule: Schedule) -> Prepared:
        deployment = self._deployment
        total = request.total_tokens
        if deployment.engine.kv_admission == "finished":
            held = np.full(schedule.n_steps, deployment.held_bytes(total))
        else:
            held = deployment.held_bytes(_cached_tokens(schedule, total))
        return Prepared(
            schedule, held, float(held[-1]) if len(held) else deployment.held_bytes(total)
        )


def _cached_tokens(schedule: Schedule, most_tokens: int) -> IntArray:
    """Tokens in the cache that each decode step needs, [steps], at most *most_tokens*.

    What the target's passes read and write, never less than at an earlier step. Places of a last
    block beyond the output are not counted, as engines grant them.
    """
    target = [p.loads[CONTEXT] + p.loads[QUERY] for p in schedule.passes if p.stack == TARGET]
    reach: IntArray = np.maximum.accumulate(np.max(target, axis=0))
    return np.minimum(reach, most_tokens)
