"""Prices the passes of engine steps: kernels of the profile plus what the engine adds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from simulator.cost import BOUNDS, OpCost, price
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.schedule import ADAPTER, LOGITS, QUERY, TARGET, IntArray, Pass
from simulator.sizes_met import SizesMet
from simulator.work import pass_ops

FloatArray = npt.NDArray[np.float64]

ENGINE = "engine"
"""Name under which the engine's overhead is accounted, and what bounds it."""
WITH_PROMPTS = " with prompts"
"""Behind the name of a pass that chunks of prompts go through too."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of consecutive steps, [steps], and where they go."""

    seconds: FloatArray
    parts: tuple[tuple[str, OpCost, int], ...]
    """(pass, operation's cost, launches)."""
    overhead_s: FloatArray


@dataclass
class CostAccount:
    """Sums of seconds over the steps that were taken."""

    seconds_by_op: dict[tuple[str, str], float] = field(default_factory=dict)
    """By (pass, operation)."""
    seconds_by_bound: dict[str, float] = field(default_factory=dict)
    seconds_by_kernel: dict[tuple[str, str], float] = field(default_factory=dict)
    """By (kernel, precision): which curve priced it."""
    total_s: float = 0.0
    sizes: SizesMet = field(default_factory=SizesMet)
    """At which the kernels were asked."""

    def share(self, seconds: float) -> float:
        """*seconds* over all of them; zero where no step was taken."""
        return seconds / self.total_s if self.total_s else 0.0

    def include(self, other: "CostAccount") -> None:
        """Add everything that *other* has accounted for."""
        self.total_s += other.total_s
        self.sizes.include(other.sizes)
        for name in ("seconds_by_op", "seconds_by_bound", "seconds_by_kernel"):
            for key, seconds in getattr(other, name).items():
                _increase(getattr(self, name), key, seconds)

    def add(self, cost: StepCost, n_steps: int) -> None:
        """Account for the first *n_steps* of *cost*."""
        self.total_s += float(cost.seconds[:n_steps].sum())
        for name, part, launches in cost.parts:
            first = OpCost(part.op, part.seconds[:n_steps], part.limits_s[:, :n_steps])
            self.add_part(name, first, launches)
        self.add_overhead(float(cost.overhead_s[:n_steps].sum()))

    def add_part(self, name: str, part: OpCost, launches: float | FloatArray) -> None:
        """Account for *part* of pass *name*, launched as often at every step; not in the total."""
        seconds, bound = launches * part.seconds, part.bound
        self._meet(name, part.op, float(seconds.sum()))
        self.sizes.meet(part)
        for index, limit in enumerate(BOUNDS):
            share = float(seconds[bound == index].sum())
            _increase(self.seconds_by_bound, limit, share)

    def meet(self, name: str, ops: Iterable[Op]) -> None:
        """Pass *name* has *ops*, even if they should turn out to take no time."""
        for op in ops:
            self._meet(name, op, 0.0)
        for limit in BOUNDS:
            _increase(self.seconds_by_bound, limit, 0.0)

    def _meet(self, name: str, op: Op, seconds: float) -> None:
        _increase(self.seconds_by_op, (name, op.name), seconds)
        _increase(self.seconds_by_kernel, (op.kernel, op.precision), seconds)

    def add_overhead(self, seconds: float) -> None:
        """Account for *seconds* of the engine's own; not in the total."""
        _increase(self.seconds_by_op, (ENGINE, "overhead"), seconds)
        _increase(self.seconds_by_bound, ENGINE, seconds)


def _increase(sums: dict, key: object, amount: float) -> None:  # type: ignore[type-arg]
    sums[key] = sums.get(key, 0.0) + amount


def ops_of(deployment: Deployment, step_pass: Pass, load: StepLoad) -> list[Op]:
    """The operations of a mean launch of *step_pass*; an adapter runs where tokens pass it."""
    adapter = deployment.adapter if load.total(ADAPTER).any() else None
    mean = replace(load, loads=step_pass.mean_loads(load.loads))
    return pass_ops(deployment.stack(step_pass.stack), mean, deployment.placement, adapter)


def price_steps(  # noqa: PLR0913 (what a step is made of)
    deployment: Deployment,
    passes: Sequence[Pass],
    loads: IntArray,
    *,
    emitting_rows: FloatArray,
    prefill: bool = False,
    chunks: IntArray | None = None,
) -> StepCost:
    """The cost of steps whose *loads* are [passes, 6, rows, steps].

    Every pass reads its stack's weights once per launch; a sequential drafter pays per launch.
    *chunks* of prompts, [6, chunks, steps], go through the last pass of the target, for which there
    is no CUDA graph then. *emitting_rows*, [steps], are those of rows and chunks together.
    """
    rows = loads.shape[2]
    bucket = deployment.engine.padded_rows(rows) / rows
    mixed = None if chunks is None else last_target_pass(passes)
    parts: list[tuple[str, OpCost, int]] = []
    overhead = deployment.engine.overhead
    seconds, waiting = np.zeros(loads.shape[3]), np.zeros(loads.shape[3])
    for index, (step_pass, load) in enumerate(zip(passes, loads, strict=True)):
        graph = 1.0 if prefill or chunks is not None else bucket
        padding = graph * row_padding(deployment, load)
        step = StepLoad(load, prefill, padding, chunks if index == mixed else None)
        launch_s, name = np.zeros_like(seconds), account_name(step_pass, mixed=index == mixed)
        for part in price(deployment.hardware, ops_of(deployment, step_pass, step)):
            parts.append((name, part, step_pass.launches))
            launch_s += part.seconds
        seconds += step_pass.launches * launch_s
        waiting += step_pass.launches * np.maximum(overhead.host_pass_s - launch_s, 0.0)
    rates = OverheadRates.of(deployment, passes)
    live, logits = (loads[:, QUERY] > 0).any(axis=0).sum(axis=0), loads[:, LOGITS].sum(axis=1)
    if chunks is not None:
        live = live + (chunks[QUERY] > 0).sum(axis=0)
        logits[mixed] += chunks[LOGITS].sum(axis=0)
    added = waiting + rates.step_s + rates.live_row_s * live + rates.logit_s @ logits
    added = added + rates.emitting_row_s * emitting_rows
    return StepCost(seconds + added, tuple(parts), added)


def account_name(step_pass: Pass, *, mixed: bool) -> str:
    """Under which name *step_pass* is accounted for, where it is *mixed* with prompts or not."""
    return f"{step_pass.name}{WITH_PROMPTS}" if mixed else step_pass.name


def last_target_pass(passes: Sequence[Pass]) -> int:
    """Index of the pass that takes chunks of prompts; raises ValueError where there is none."""
    found = [index for index, step_pass in enumerate(passes) if step_pass.stack == TARGET]
    if not found:
        message = f"prompts go through the target, got passes of {[p.stack for p in passes]}"
        raise ValueError(message)
    return found[-1]


def row_padding(deployment: Deployment, load: IntArray) -> float | FloatArray:
    """Slots over tokens of a pass, [steps], where rows are as wide as the widest; else 1."""
    if deployment.engine.row_layout == "packed":
        return 1.0
    query = load[QUERY]
    rows, widest = (query > 0).sum(axis=0), query.max(axis=0, initial=0)
    return slots_over_tokens(query.sum(axis=0), rows, widest)


def slots_over_tokens(
    tokens: IntArray | FloatArray, rows: IntArray | FloatArray, widest_tokens: IntArray | FloatArray
) -> FloatArray:
    """Places in a forward of *rows* as wide as the widest, over the *tokens* in them."""
    padding: FloatArray = np.where(tokens > 0, rows * widest_tokens / np.maximum(tokens, 1), 1.0)
    return padding


@dataclass(frozen=True)
class OverheadRates:
    """Seconds of the engine's Overhead for each thing counted in a step, waiting aside."""

    step_s: float
    """Whatever the batch: the step itself, and the launches of its passes."""
    live_row_s: float
    emitting_row_s: float
    logit_s: FloatArray
    """[passes]: per LM-head row of a pass."""

    @classmethod
    def of(cls, deployment: Deployment, passes: Sequence[Pass]) -> Self:
        """The rates of steps of *passes*."""
        overhead = deployment.engine.overhead
        launches, eager = sum(p.launches for p in passes), sum(p.launches * p.eager for p in passes)
        # Drafters take an arg-max or top-k, which the confidence operation covers.
        sampled = [p.launches * deployment.model.vocab * (p.stack == TARGET) for p in passes]
        return cls(
            step_s=overhead.step_s + overhead.pass_s * launches + overhead.eager_pass_s * eager,
            live_row_s=overhead.row_s,
            emitting_row_s=overhead.emission_s,
            logit_s=overhead.logit_s * np.array(sampled, dtype=float),
        )
