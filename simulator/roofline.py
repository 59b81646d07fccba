"""Roofline: per pass and operation, intensity, attained and attainable rate, and what bounds it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cost import BOUNDS, OpCost, price
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.schedule import loads
from simulator.step_cost import ops_of
from simulator.work import pass_ops


@dataclass(frozen=True)
class SamplePass:
    """One pass of the scenario at mid-run: the whole batch, half of the output decoded."""

    name: str
    stack: str
    launches: int
    ops: list[Op]


@dataclass(frozen=True)
class RooflineRow:
    """One operation of one pass on one GPU; rates per second."""

    pass_name: str
    operation: str
    kernel: str
    seconds: float
    flop: float
    bytes: float
    link_bytes: float
    intensity_flop_per_byte: float
    attained_flop_per_s: float
    attainable_flop_per_s: float
    attained_bytes_per_s: float
    bound: str


def sample_passes(deployment: Deployment) -> list[SamplePass]:
    """The decode passes of the full batch half-way through the output."""
    schedule = deployment.schedule(deployment.example)
    rows = deployment.most_together
    padding = deployment.engine.padded_rows(rows) / rows
    found = []
    for step_pass in schedule.passes:
        middle = step_pass.loads[:, schedule.n_steps // 2, None] if schedule.n_steps else None
        if middle is None:
            continue
        load = StepLoad(np.repeat(middle[:, None, :], rows, axis=1), padding=padding)
        ops = ops_of(deployment, step_pass, load)
        found.append(SamplePass(step_pass.name, step_pass.stack, step_pass.launches, ops))
    return found


def prefill_ops(deployment: Deployment) -> list[Op]:
    """The operations of a prefill forward of as many prompts as one forward takes."""
    workload, engine = deployment.scenario.workload, deployment.engine
    schedule = deployment.schedule(deployment.example)
    tokens = min(schedule.prefill_tokens, engine.prefill_chunk_tokens or schedule.prefill_tokens)
    if not tokens:
        return []
    # Of an open load, prompts come one by one.
    most = deployment.most_together if workload.is_closed else 1
    rows = max(1, min(most, engine.prefill_batch_tokens // tokens))
    load = loads(1, query=tokens, context=0, logits=schedule.prefill_emits_tokens)
    batch = StepLoad(np.repeat(load[:, None, :], rows, axis=1), prefill=True)
    return pass_ops(deployment.model, batch, deployment.placement)


def roofline(deployment: Deployment) -> list[RooflineRow]:
    """Every operation of every pass, in order; kernels of one name are one operation."""
    rows = []
    for sample in sample_passes(deployment):
        by_name: dict[str, list[OpCost]] = {}
        for cost in price(deployment.hardware, sample.ops):
            if cost.seconds[0] > 0:
                by_name.setdefault(cost.op.name, []).append(cost)
        rows += [_row(deployment, sample.name, costs) for costs in by_name.values()]
    return rows


def _row(deployment: Deployment, pass_name: str, costs: Sequence[OpCost]) -> RooflineRow:
    op = costs[0].op
    seconds = sum(float(cost.seconds[0]) for cost in costs)
    flop = sum(float(cost.op.flop[0]) for cost in costs)
    moved = sum(float(cost.op.bytes[0]) for cost in costs)
    limits = np.sum([cost.limits_s[:, 0] for cost in costs], axis=0)
    peaks = deployment.hardware.peaks
    intensity = flop / moved if moved else 0.0
    return RooflineRow(
        pass_name=pass_name,
        operation=op.name,
        kernel=op.kernel,
        seconds=seconds,
        flop=flop,
        bytes=moved,
        link_bytes=sum(float(cost.op.link_bytes[0]) for cost in costs),
        intensity_flop_per_byte=intensity,
        attained_flop_per_s=flop / seconds,
        attainable_flop_per_s=min(
            peaks.flop_per_s(op.precision), intensity * peaks.memory_bytes_per_s
        ),
        attained_bytes_per_s=moved / seconds,
        bound=BOUNDS[int(limits.argmax())],
    )
