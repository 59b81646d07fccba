"""BlockPace: the schedules of a captured trace of blocks, request by request or drawn."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from simulator import decoding
from simulator.pace import NINETY_PERCENT
from simulator.replay.block_choice import captured_parameters
from simulator.replay.block_replay import BlockReplay
from simulator.replay.block_requests import captured_requests, resampled_requests
from simulator.replay.block_schedules import schedules_of
from simulator.replay.block_source import BlockSource, block_source
from simulator.replay.totals import BATCH, POLICY
from simulator.request import Request
from simulator.schedule import IntArray, Schedule
from traces.block_trace import BlockTrace
from traces.columns import numbers

COUNTERFACTUAL_ERROR: Final = 0.04
"""90th percentile of the error in tokens per forward when each shipped trace of wavefronts and of
buffers predicted all others of its checkpoint (245 pairs)."""
GUESSED_ERROR: Final = 0.1
"""The same where more blocks are live than in the trace, of 68 predictions of captures at settings
that no shipped trace has (with no more live blocks it was 3 % of 121), and where nothing limits how
many are live (multi-block at other gates: 10 %)."""
SHARED_ERROR: Final = 0.15
"""The most that predictions of synchronous batches were off, at 8 to 32 rows."""
UNLIMITED: Final = ("multi-block",)
"""Policies whose gate alone says how many blocks are live."""
BATCHING: Final = "batching"


@dataclass(frozen=True, eq=False)
class BlockPace:
    """What the blocks of *trace* do under a policy's *parameters*.

    Requests that name their source do what that one did, under other parameters what it would have
    done; others are drawn from the trace.
    """

    trace: BlockTrace
    policy: str
    parameters: Any
    """The policy's Parameters, complete."""
    repeats: bool = False
    """Whether the requests of the run name their sources."""
    batch: int | None = None
    """Rows that begin together, where they share state; None for as many as captured."""

    @cached_property
    def source(self) -> BlockSource:
        """The recorded blocks."""
        return block_source(self.trace, from_prompt=self._replays.from_prompt)

    @property
    def _replays(self) -> decoding.Replays:
        return decoding.policy(self.policy).REPLAYS

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Parameters that are not the captured ones; policy and shared batch may be among them."""
        manifest = self.trace.manifest
        other: tuple[str, ...] = () if manifest.policy == self.policy else (POLICY,)
        if self.parameters.shares_batch and self.batch not in {None, manifest.batch}:
            other += (BATCH,)
        captured = captured_parameters(self.policy, manifest)
        return other + tuple(
            name for name, value in captured.items() if getattr(self.parameters, name) != value
        )

    @property
    def replay(self) -> str:
        """exact, counterfactual or resampled."""
        if self.changed:
            return "counterfactual"
        return "exact" if self.repeats else "resampled"

    @cached_property
    def mean_tokens(self) -> float:
        """Tokens per decode forward, as captured."""
        tokens, forwards = self._totals
        return float(tokens.sum() / forwards.sum())

    @cached_property
    def _totals(self) -> tuple[IntArray, IntArray]:
        requests = self.trace.requests
        forwards = numbers(requests, "denoise_forwards") + numbers(requests, "store_forwards")
        return numbers(requests, "output_tokens"), forwards

    @cached_property
    def sampling_error(self) -> float:
        """90th percentile of the relative error of tokens per forward: that of few requests.

        That of a ratio of two sums over independent requests, to first order.
        """
        tokens, forwards = self._totals
        if len(tokens) == 1:
            return 0.0
        apart = tokens - self.mean_tokens * forwards
        deviation = float(np.std(apart, ddof=1)) * math.sqrt(len(tokens))
        return NINETY_PERCENT * deviation / float(tokens.sum())

    @property
    def relative_error(self) -> float:
        """90th percentile of the relative error of tokens per forward; none where all repeats."""
        if self.replay == "exact":
            return 0.0
        return math.hypot(self.sampling_error, self.counterfactual_error)

    @property
    def counterfactual_error(self) -> float:
        """The share of other parameters in that error."""
        if not self.changed:
            return 0.0
        if {BATCH, BATCHING} & set(self.changed):
            return SHARED_ERROR
        is_guess = self._is_deeper or self.policy in UNLIMITED
        return GUESSED_ERROR if is_guess else COUNTERFACTUAL_ERROR

    @cached_property
    def _captured_live(self) -> int:
        """The most blocks that were live at once."""
        steps = self.trace.steps
        live = numbers(steps, "window_right") - numbers(steps, "window_left")
        return int(live.max(initial=1))

    @property
    def _is_deeper(self) -> bool:
        """Whether more blocks may be live than were."""
        live = _live_blocks(self.parameters)
        return live is not None and live > self._captured_live

    @property
    def warnings(self) -> Iterator[str]:
        """What the trace, and the way it is replayed, leave in doubt."""
        if self.changed:
            yield from self._counterfactual()
        yield from self.trace.manifest.caveats

    def _counterfactual(self) -> Iterator[str]:
        """What a replay under other parameters rests on, a sentence each."""
        manifest = self.trace.manifest
        changed = ", ".join(self._change(name) for name in self.changed)
        yield (
            f"counterfactual ({changed}): blocks that meet what the trace does not have go on from "
            f"the nearest it has; that missed captures of 128 requests by "
            f"{self.counterfactual_error:.0%} (90th percentile)"
        )
        if self.parameters.shares_batch:
            yield (
                "a batch that shares a window waits for its slowest row, which few rows of a trace "
                "tell of: predictions of other batches were too fast, the more so the larger"
            )
        if self._is_deeper:
            live, captured = _live_blocks(self.parameters), self._captured_live
            yield (
                f"up to {live} blocks are live, in trace {manifest.name} {captured} at most: what "
                f"a block does behind {captured} unfinished ones is a guess, off by up to 20 % in "
                "tests; a trace with more live blocks tells"
            )

    def _change(self, name: str) -> str:
        if name == POLICY:
            return f"{self.policy} from a trace of {self.trace.manifest.policy}"
        if name == BATCH:
            return f"batch {self.batch}, captured {self.trace.manifest.batch}"
        own = captured_parameters(self.policy, self.trace.manifest)[name]
        return f"{name} {getattr(self.parameters, name)}, captured {own}"

    def replayed(self, requests: Sequence[Request]) -> BlockReplay:
        """*requests*, which share a batch, once they are over."""
        sources = [request.source for request in requests if request.source is not None]
        texts = (
            captured_requests(self.source, np.array(sources))
            if len(sources) == len(requests)
            else resampled_requests(self.source, requests)
        )
        shares = self.parameters.shares_batch
        blocks = BlockReplay(
            self.source,
            texts,
            groups=np.zeros(len(requests), dtype=np.int64) if shares else None,
            is_counterfactual=bool(self.changed),
        )
        decoding.policy(self.policy).replay(blocks, self.parameters)
        return blocks

    def schedules(self, requests: Sequence[Request]) -> list[Schedule]:
        """Their schedules."""
        blocks = self.replayed(requests)
        return schedules_of(blocks.record.tables(), blocks.requests, self._replays)


def _live_blocks(parameters: Any) -> int | None:  # noqa: ANN401 (of the policy)
    """The most blocks that may be live at once; None where nothing limits them."""
    for name in ("window", "buffer"):
        if (most := getattr(parameters, name, None)) is not None:
            return int(most)
    return None
