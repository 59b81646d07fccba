"""Row: a request on its way through a replica, and how far it is."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import simpy

from simulator.prepared import Prepared
from simulator.request import Request
from simulator.schedule import CONTEXT, TARGET, Schedule

FloatArray = npt.NDArray[np.float64]


@dataclass(eq=False)
class Row:
    """A request that waits, fills its cache, or decodes.

    Whoever is preempted loses its cache and keeps its *position*: it fills its cache anew, output
    included, and goes on.
    """

    request: Request
    done: simpy.Event | None = None
    """Happens when the request is finished; None where nobody waits for it."""
    prepared: Prepared | None = None
    """None until the request is admitted first."""
    admitted_s: float = 0.0
    """First admission."""
    filled_tokens: int = 0
    """Tokens in the cache while it is being filled."""
    goal_tokens: int = 0
    """Tokens that the cache must hold before the row decodes."""
    comes_filled: bool = False
    """Whether another replica has filled its cache."""
    prefill_forwards: int = 0
    prefill_end_s: float | None = None
    """End of the first prefill, which may emit."""
    position: int = 0
    """Decode steps that were taken before the row last joined the batch."""
    ends_s: list[FloatArray] = field(default_factory=list)
    """Pieces of the times at which its decode steps ended, in order."""
    prefix: tuple[int, ...] = ()
    """Prefix blocks in the cache that the row holds on to."""
    prefix_bytes: float = 0.0
    """What they take, in place of the row's own cache."""
    cached_prefix_tokens: int = 0
    """Prompt tokens that were found in the cache, over all its admissions."""
    preemptions: int = 0

    @property
    def own(self) -> Prepared:
        """What an admitted row does."""
        if self.prepared is None:
            message = f"request {self.request.index} was not admitted"
            raise RuntimeError(message)
        return self.prepared

    @property
    def schedule(self) -> Schedule:
        """The schedule of an admitted row."""
        return self.own.schedule

    def held_bytes(self, stop: int) -> float:
        """Cache of its own during the decode step before *stop*; without any, when it is over."""
        own = self.own
        held = float(own.kv_bytes[stop - 1]) if stop else own.over_bytes
        return held - self.prefix_bytes

    @property
    def left_tokens(self) -> int:
        """Tokens that are still to be filled."""
        return self.goal_tokens - self.filled_tokens

    @property
    def emits_at_end(self) -> int:
        """Tokens that come out when the cache is filled; none when it is filled again."""
        return self.schedule.prefill_emits_tokens if self.prefill_end_s is None else 0

    @property
    def tokens_before_next(self) -> int:
        """Tokens that the cache must hold before the step at *position*."""
        if self.position == 0 or self.position >= self.schedule.n_steps:
            return self.schedule.prefill_tokens
        passes = [p for p in self.schedule.passes if p.stack == TARGET]
        return int(min(p.loads[CONTEXT, self.position] for p in passes))
