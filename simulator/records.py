"""Records of a run: one per request, one per step, and what is counted as they come in."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Columns
from simulator.tally import Tally
from simulator.timeline import Timeline

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BUFFER_STEPS = 8192


class RequestRecord(NamedTuple):
    """What happened to one request; times are seconds of the simulated clock."""

    request: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float
    admitted_s: float
    """When it joined the batch, for the first time if it was preempted."""
    first_token_s: float
    finished_s: float
    first_tokens: int
    """Output tokens that came out first, together."""
    decode_steps: int
    forwards: int
    """Decode passes that the request took part in, those that only store KV included."""
    prefill_forwards: int
    prefill_emitted_tokens: int = 0
    """Output tokens that came from the prefill, not from a decode pass."""
    replica: int = 0
    preemptions: int = 0
    """How often it lost its cache and had to begin again."""
    cached_prefix_tokens: int = 0
    """Prompt tokens that were in the cache already."""


@dataclass(frozen=True)
class RejectedRecord:
    """A request that could never have been served."""

    request: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    reason: str


@dataclass(frozen=True)
class StepRecord:
    """One engine step."""

    start_s: float
    seconds: float
    prefill: bool
    batch_rows: int
    """Requests in the batch: admitted and neither over nor set back, whatever the step does."""
    rows: int
    """Those of them with tokens in the forward."""
    query_tokens: int
    emitted_tokens: int
    forwards: int
    kv_used_bytes: float
    replica: int = 0


BLOCK = (
    "start_s",
    "seconds",
    "batch_rows",
    "rows",
    "query_tokens",
    "emitted_tokens",
    "kv_used_bytes",
)
"""What differs from step to step, in the order in which blocks of steps have it."""


class RunRecords:
    """Everything a run produced, of all its replicas, in the order in which it was told.

    Without *keep_steps* there is no table of steps; what is counted of them is the same.
    """

    def __init__(self, *, keep_steps: bool = True) -> None:
        """Start empty."""
        self.keep_steps = keep_steps
        self.requests = Columns(RequestRecord)
        self.rejected = Columns(RejectedRecord)
        self.emission_gaps_s = Tally()
        """Times between consecutive emissions of a request, of all finished ones together."""
        self._steps = Columns(StepRecord)
        self._timeline = Timeline()
        self._step_latency_s = Tally()
        self._blocks: list[tuple[FloatArray, int, bool, int]] = []
        """Steps that were told and are not counted yet, with what is one number for all of them."""
        self._buffered = 0

    @property
    def steps(self) -> Columns[StepRecord]:
        """Every step; none unless they are kept."""
        self._flush()
        return self._steps

    @property
    def timeline(self) -> Timeline:
        """Sums over the steps."""
        self._flush()
        return self._timeline

    @property
    def step_latency_s(self) -> Tally:
        """Seconds of the decode steps."""
        self._flush()
        return self._step_latency_s

    def add_request(self, record: RequestRecord, emission_gaps_s: FloatArray) -> None:
        """Keep a finished request, and count the times between its consecutive emissions."""
        self.requests.append(record)
        self.emission_gaps_s.add(emission_gaps_s)

    def add_block(self, steps: FloatArray, *, forwards: int, prefill: bool, replica: int) -> None:
        """Consecutive steps of a replica: *steps* is [BLOCK, steps], and is kept, not copied."""
        self._blocks.append((steps, forwards, prefill, replica))
        self._buffered += steps.shape[1]
        if self._buffered >= BUFFER_STEPS:
            self._flush()

    def add_steps(  # noqa: PLR0913 (the fields of a StepRecord)
        self,
        *,
        start_s: FloatArray,
        seconds: FloatArray,
        batch_rows: IntArray | FloatArray,
        rows: IntArray | FloatArray,
        query_tokens: IntArray | FloatArray,
        emitted_tokens: IntArray | FloatArray,
        kv_used_bytes: FloatArray,
        forwards: int,
        prefill: bool,
        replica: int = 0,
    ) -> None:
        """Consecutive steps of a replica, [steps] each; what is one number is every step's."""
        counts = (batch_rows, rows, query_tokens, emitted_tokens)
        block = np.array((start_s, seconds, *counts, kv_used_bytes), dtype=np.float64)
        self.add_block(block, forwards=forwards, prefill=prefill, replica=replica)

    def _flush(self) -> None:
        """Count what is in the buffer, and keep it when steps are kept."""
        if not self._buffered:
            return
        blocks, self._blocks, self._buffered = self._blocks, [], 0
        steps = dict(zip(BLOCK, np.concatenate([each[0] for each in blocks], axis=1), strict=True))
        lengths = [each[0].shape[1] for each in blocks]
        for place, name in enumerate(("forwards", "prefill", "replica"), start=1):
            steps[name] = np.repeat([float(each[place]) for each in blocks], lengths)
        self._timeline.add(steps)
        self._step_latency_s.add(steps["seconds"][steps["prefill"] == 0])
        if self.keep_steps:
            self._steps.extend(steps)
