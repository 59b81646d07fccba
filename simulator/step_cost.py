"""Prices the passes of engine steps: kernels of the profile plus what the engine adds."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from simulator.cost import BOUNDS, OpCost, price
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.schedule import ADAPTER, LOGITS, QUERY, IntArray, Pass
from simulator.work import pass_ops

FloatArray = npt.NDArray[np.float64]

ENGINE = "engine"
"""Name under which the engine's overhead is accounted, and what bounds it."""


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

    def add(self, cost: StepCost, n_steps: int) -> None:
        """Account for the first *n_steps* of *cost*."""
        self.total_s += float(cost.seconds[:n_steps].sum())
        for name, part, launches in cost.parts:
            seconds = launches * part.seconds[:n_steps]
            total = float(seconds.sum())
            _increase(self.seconds_by_op, (name, part.op.name), total)
            _increase(self.seconds_by_kernel, (part.op.kernel, part.op.precision), total)
            for index, bound in enumerate(BOUNDS):
                share = float(seconds[part.bound[:n_steps] == index].sum())
                _increase(self.seconds_by_bound, bound, share)
        overhead = float(cost.overhead_s[:n_steps].sum())
        _increase(self.seconds_by_op, (ENGINE, "overhead"), overhead)
        _increase(self.seconds_by_bound, ENGINE, overhead)


def _increase(sums: dict, key: object, amount: float) -> None:  # type: ignore[type-arg]
    sums[key] = sums.get(key, 0.0) + amount


def ops_of(deployment: Deployment, step_pass: Pass, load: StepLoad) -> list[Op]:
    """The operations of a mean launch of *step_pass*; an adapter runs where tokens pass it."""
    adapter = deployment.adapter if load.loads[ADAPTER].any() else None
    mean = replace(load, loads=step_pass.mean_loads(load.loads))
    return pass_ops(deployment.stack(step_pass.stack), mean, deployment.placement, adapter)


def price_steps(
    deployment: Deployment,
    passes: Iterable[Pass],
    loads: IntArray,
    *,
    emitting_rows: FloatArray,
    prefill: bool = False,
) -> StepCost:
    """The cost of steps whose *loads* are [passes, 6, rows, steps].

    Every pass reads its stack's weights once per launch; a sequential drafter pays per launch.
    """
    rows = loads.shape[2]
    bucket = 1.0 if prefill else deployment.engine.padded_rows(rows) / rows
    parts: list[tuple[str, OpCost, int]] = []
    overhead = deployment.engine.overhead
    seconds, waiting = np.zeros(loads.shape[3]), np.zeros(loads.shape[3])
    for step_pass, load in zip(passes, loads, strict=True):
        padding = bucket * row_padding(deployment, load)
        ops = ops_of(deployment, step_pass, StepLoad(load, prefill=prefill, padding=padding))
        launch_s = np.zeros_like(seconds)
        for part in price(deployment.hardware, ops):
            parts.append((step_pass.name, part, step_pass.launches))
            launch_s += part.seconds
        seconds += step_pass.launches * launch_s
        waiting += step_pass.launches * np.maximum(overhead.host_pass_s - launch_s, 0.0)
    counts = _overhead_counts(deployment, passes, loads, emitting_rows)
    added = waiting + sum(getattr(overhead, name) * count for name, count in counts.items())
    return StepCost(seconds + added, tuple(parts), added)


def row_padding(deployment: Deployment, load: IntArray) -> float | FloatArray:
    """Slots over tokens of a pass, [steps], where rows are as wide as the widest; else 1."""
    if deployment.engine.row_layout == "packed":
        return 1.0
    query = load[QUERY]
    tokens = query.sum(axis=0)
    slots = (query > 0).sum(axis=0) * query.max(axis=0, initial=0)
    padding: FloatArray = np.where(tokens > 0, slots / np.maximum(tokens, 1), 1.0)
    return padding


def _overhead_counts(
    deployment: Deployment, passes: Iterable[Pass], loads: IntArray, emitting_rows: FloatArray
) -> dict[str, FloatArray]:
    """How often each parameter of the engine's Overhead is paid, [steps]."""
    launches = np.array([p.launches for p in passes], dtype=float)
    # Drafters take an arg-max or top-k, which the confidence operation covers.
    sampled = [p.launches * deployment.model.vocab * (p.stack == "target") for p in passes]
    entries = np.array(sampled, dtype=float)
    steps = np.ones(loads.shape[3])
    live = (loads[:, QUERY] > 0).any(axis=0).sum(axis=0)
    return {
        "step_s": steps,
        "pass_s": steps * launches.sum(),
        "eager_pass_s": steps * sum(p.launches for p in passes if p.eager),
        "row_s": live.astype(float),
        "logit_s": np.tensordot(entries, loads[:, LOGITS].sum(axis=1), axes=1),
        "emission_s": emitting_rows,
    }
