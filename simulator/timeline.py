"""Timeline: sums over the steps of a run, by replica and by when they started, in little memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BINS = 2048
# A power of two, and so is every width after it: whole seconds lie on the edges of bins.
FIRST_BIN_S = 2.0**-14
SUMS = (
    "busy_s",
    "prefill_s",
    "row_s",
    "kv_byte_s",
    "emitted_tokens",
    "steps",
    "forwards",
    "prefill_forwards",
)


@dataclass(frozen=True)
class StepSums:
    """Sums over steps, [replicas] each; those with _s at their end are weighted by time."""

    busy_s: FloatArray
    """In steps of any kind."""
    prefill_s: FloatArray
    row_s: FloatArray
    """Requests in the batch, times seconds."""
    kv_byte_s: FloatArray
    emitted_tokens: FloatArray
    steps: FloatArray
    """Decode steps."""
    forwards: FloatArray
    prefill_forwards: FloatArray


class Timeline:
    """Sums of steps in bins of equal width; twice as wide whenever the run outgrows them.

    A step counts where it starts, so a bin is never wider than 1/1024 of the time up to the last
    start, or 2^-14 s.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._width_s = FIRST_BIN_S
        self._sums: FloatArray = np.zeros((len(SUMS), 1, BINS))

    def add(self, steps: Mapping[str, npt.NDArray[np.float64]]) -> None:
        """Count *steps*, whose fields are those of a StepRecord, [steps] each."""
        replica = steps["replica"].astype(np.int64)
        self._widen(float(steps["start_s"].max()), int(replica.max()) + 1)
        place = replica * BINS + (steps["start_s"] / self._width_s).astype(np.int64)
        size = self._sums.shape[1] * BINS
        counted = [np.bincount(place, amount, minlength=size) for amount in _amounts(steps)]
        self._sums += np.reshape(counted, self._sums.shape)

    @property
    def whole(self) -> StepSums:
        """Sums over all steps."""
        return StepSums(*self._sums.sum(axis=2))

    def between(self, begin_s: float, end_s: float) -> StepSums:
        """Sums over the steps that start from *begin_s* on and before *end_s*.

        Exact where these lie on the edges of bins or beyond the run; a bin with an edge inside is
        counted by its share.
        """
        edges = np.arange(BINS) * self._width_s
        share = np.minimum(edges + self._width_s, end_s) - np.maximum(edges, begin_s)
        return StepSums(*(self._sums @ np.clip(share / self._width_s, 0.0, 1.0)))

    def _widen(self, start_s: float, replicas: int) -> None:
        while start_s >= BINS * self._width_s:
            pairs = self._sums.reshape(*self._sums.shape[:2], BINS // 2, 2).sum(axis=3)
            self._sums = np.concatenate([pairs, np.zeros_like(pairs)], axis=2)
            self._width_s *= 2
        more = replicas - self._sums.shape[1]
        if more > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, more), (0, 0)))


def _amounts(steps: Mapping[str, npt.NDArray[np.float64]]) -> list[FloatArray]:
    """What each step adds to each of SUMS."""
    seconds, prefill = steps["seconds"], steps["prefill"]
    return [
        seconds,
        seconds * prefill,
        seconds * steps["batch_rows"],
        seconds * steps["kv_used_bytes"],
        steps["emitted_tokens"],
        1.0 - prefill,
        steps["forwards"],
        steps["forwards"] * prefill,
    ]
