"""Cost: operations on a hardware profile become seconds, by operation, and what bounds each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hwprofiles import HardwareProfile, KernelTime, Residual
from simulator.ops import Op

FloatArray = npt.NDArray[np.float64]
Bound = Literal["compute", "memory", "link", "launch"]
BOUNDS: tuple[Bound, ...] = ("compute", "memory", "link", "launch")


@dataclass(frozen=True)
class OpCost:
    """An operation's time, [steps], its four limits, and the curve that priced it."""

    op: Op
    seconds: FloatArray
    limits_s: FloatArray
    """[4, steps] in the order of BOUNDS: what each limit alone would take."""

    @property
    def bound(self) -> npt.NDArray[np.intp]:
        """Index into BOUNDS of the largest limit at each step."""
        largest: npt.NDArray[np.intp] = self.limits_s.argmax(axis=0)
        return largest


class MissingKernelError(ValueError):
    """The hardware profile has no cost curve for a kernel or precision that the pass needs."""


def curve_of(hardware: HardwareProfile, op: Op) -> Any:  # noqa: ANN401 (curves differ in their inputs)
    """The profile's cost curve for *op*; raises MissingKernelError when it has none."""
    kernels = hardware.kernels
    by_precision: dict[str, Any] = {
        "gemm": kernels.gemm,
        "lm_head": kernels.lm_head,
        "moe": kernels.moe,
        "attention_extend": kernels.attention_extend,
        "attention_prefill": kernels.attention_prefill,
    }
    if op.kernel in by_precision:
        curve = by_precision[op.kernel].get(op.precision)
    else:
        curve = getattr(kernels, op.kernel)
    if curve is None:
        message = f"hardware profile {hardware.name} has no {op.precision} {op.kernel} cost curve"
        raise MissingKernelError(message)
    return curve


def price(hardware: HardwareProfile, ops: Sequence[Op]) -> list[OpCost]:
    """Seconds of every operation on one GPU of the profile."""
    return [_price(hardware, op) for op in ops]


def _price(hardware: HardwareProfile, op: Op) -> OpCost:
    return cost_of(op, curve_of(hardware, op).time(**op.inputs), np.shape(op.flop))


def cost_of(op: Op, time: KernelTime, shape: tuple[int, ...]) -> OpCost:
    """What *op* costs, [shape], if each of its kernels takes *time*."""
    limits = [time.compute_s, time.memory_s, time.link_s, time.launch_s]
    stacked = np.stack([np.broadcast_to(limit, shape) for limit in limits])
    return OpCost(op, op.count * np.broadcast_to(time.seconds, shape), op.count * stacked)


def residual_of(hardware: HardwareProfile, op: Op) -> Residual:
    """How far off the curve that prices *op* was on points held out of its fit."""
    residual: Residual = curve_of(hardware, op).residual
    return residual


def outside(hardware: HardwareProfile, ops: Sequence[Op]) -> list[str]:
    """Which inputs of *ops* lie outside the range that the profile's curves were measured on."""
    found: dict[str, None] = {}
    for op in ops:
        for what in curve_of(hardware, op).outside(**op.inputs):
            found[f"{op.kernel} ({op.name}): {what}"] = None
    return list(found)
