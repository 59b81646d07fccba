"""Task: one point's run, with all that a process of another machine needs for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.price import cost_per_million_output_tokens
from simulator.result import run
from simulator.sweep.table import Row, failed, row_of

ORIGIN: Final = "scenario"


@dataclass(frozen=True)
class Task:
    """A scenario, and what an hour of its GPU costs where that was told."""

    document: Mapping[str, Any]
    gpu_hour_cost: float | None
    is_priced: bool
    """Whether any price was told, so that the table has a column of costs."""


def simulated(task: Task) -> Row:
    """What the run comes to, or why there is none."""
    try:
        deployment = build(task.document, ORIGIN)
        summary = run(deployment, keep_steps=False).summary
    except DocumentError as error:
        return failed("; ".join(map(str, error.mistakes)))
    cost = None
    if task.gpu_hour_cost is not None:
        rate = summary["metrics"]["output_tokens_per_s"]
        cost = cost_per_million_output_tokens(deployment.gpus, rate, task.gpu_hour_cost)
    return row_of(summary, deployment.gpus, cost, is_priced=task.is_priced)
