"""The shipped traces of iterations, and a schedule's forwards as a trace has them."""

import functools

import numpy as np
import numpy.typing as npt

from simulator import library
from simulator.schedule import CONTEXT, FEATURES, QUERY, Pass, Schedule
from traces.iteration_trace import IterationTrace, read_iteration_trace

IntArray = npt.NDArray[np.int64]

NAMES = [
    name
    for name in library.TRACES.names()
    if "\nrecords: iterations\n" in library.TRACES.path(name).read_text(encoding="utf-8")
]
LOADS = (
    "query_tokens",
    "prefix_tokens",
    "logit_rows",
    "adapter_tokens",
    "feature_tokens",
    "moved_tokens",
)
"""Columns of the table of steps in the order of a pass's loads."""


@functools.cache
def shipped(name: str) -> IterationTrace:
    """A shipped trace, read once."""
    return read_iteration_trace(library.TRACES.path(name).parent)


def forwards_of(schedule: Schedule, prompt_tokens: int) -> IntArray:
    """Loads of every decode forward in the order they are run, [forwards, 6].

    Where the simulator and a decoder keep different books, they are the decoder's here: it has no
    prefill of a drafter, which takes in the whole prompt in its first iteration.
    """
    launches = [
        _launch(step_pass, number)
        for step_pass in schedule.passes
        for number in range(step_pass.launches)
    ]
    drafter = schedule.passes[0].stack
    if schedule.n_steps and drafter != "target":
        launches[0][FEATURES, 0] = prompt_tokens
        if drafter == "eagle3":
            launches[0][QUERY, 0] = prompt_tokens
            launches[0][CONTEXT, 0] = 0
    return np.stack(launches).transpose(2, 0, 1).reshape(-1, len(LOADS))


def _launch(step_pass: Pass, number: int) -> IntArray:
    """Loads of one of the launches of a pass: later ones find what the earlier ones left."""
    loads = step_pass.loads.copy()
    loads[CONTEXT] += number * step_pass.stored_tokens
    return loads


def kinds_of(schedule: Schedule) -> list[str]:
    """Kinds of the forwards of a step, as a trace calls them."""
    return [
        "draft" if step_pass.name.startswith("draft") else "verify"
        for step_pass in schedule.passes
        for _ in range(step_pass.launches)
    ]
