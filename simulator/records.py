"""Records of a run: one per finished request, one per step; plain columns, no statistics."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RequestRecord:
    """What happened to one request; times are seconds of the simulated clock."""

    request: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float
    admitted_s: float
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


@dataclass(frozen=True)
class StepRecord:
    """One engine step."""

    start_s: float
    seconds: float
    prefill: bool
    rows: int
    query_tokens: int
    emitted_tokens: int
    forwards: int
    kv_used_bytes: float


@dataclass
class RunRecords:
    """Everything a run produced, in the order it happened."""

    requests: list[RequestRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    emission_gaps_s: list[FloatArray] = field(default_factory=list)
    """Per request, the times between its consecutive emissions."""
