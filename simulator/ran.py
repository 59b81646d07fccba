"""Ran: the operations of a run at the extreme sizes that it met, for warnings of their ranges."""

from collections.abc import Sequence

import numpy as np

from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.prompts import prefill_passes
from simulator.records import RunRecords
from simulator.request import Request
from simulator.schedule import CONTEXT, N_LOADS, IntArray
from simulator.sizes_met import BY_SEQUENCE, Chunks, SizesMet
from simulator.step_cost import ops_of


def ops_that_ran(deployment: Deployment, records: RunRecords, sizes: SizesMet) -> list[Op]:
    """Every operation with the least and the most that the run asked of it.

    Attention is asked for by whole batches: the smallest one with the shortest and the longest
    context, the largest one with all the context that any had, and the extreme prefill forwards.
    """
    found = list(sizes.ops())
    forwards = [chunks for _, chunks in sizes.prompts.values()]
    return found + _decoding(deployment, records, sizes) + _filling(deployment, forwards)


def _decoding(deployment: Deployment, records: RunRecords, sizes: SizesMet) -> list[Op]:
    if sizes.rows is None or not len(records.requests):
        return []
    least, most = (max(1, int(rows)) for rows in sizes.rows)
    totals = records.requests.column("prompt_tokens") + records.requests.column("output_tokens")
    first, last = _request(records, int(totals.argmin())), _request(records, int(totals.argmax()))
    shortest, longest = (deployment.schedule(request) for request in (first, last))
    ends = [(plan, where) for plan, where in ((shortest, 0), (longest, -1)) if plan.n_steps]
    if not ends:
        return []
    found = []
    for index, step_pass in enumerate(ends[0][0].passes):
        rows = np.zeros((N_LOADS, most, len(ends) + 1), dtype=np.int64)
        for column, (plan, where) in enumerate(ends):
            rows[:, :least, column] = ends[0][0].loads[index, :, :1]
            rows[:, 0, column] = plan.loads[index, :, where]
        rows[:, :, -1] = rows[:, :1, len(ends) - 1]
        rows[CONTEXT, :, -1] = _even(sizes.context_tokens, most)
        found += ops_of(deployment, step_pass, StepLoad(rows))
    return _by_sequence(found)


def _request(records: RunRecords, index: int) -> Request:
    record = records.requests[index]
    return Request(record.request, record.prompt_tokens, record.output_tokens, record.arrival_s)


def _even(tokens: float, rows: int) -> IntArray:
    """*tokens* shared out evenly over *rows*."""
    return np.full(rows, int(tokens) // rows, dtype=np.int64)


def _filling(deployment: Deployment, forwards: Sequence[Chunks]) -> list[Op]:
    if not forwards:
        return []
    most = max(map(len, forwards))
    padded = [[*chunks, *[(0, 0, 0)] * (most - len(chunks))] for chunks in forwards]
    steps = [prefill_passes(deployment, chunks) for chunks in padded]
    loads = np.concatenate([each for _, each in steps], axis=3)
    found = []
    for step_pass, load in zip(steps[0][0], loads, strict=True):
        found += ops_of(deployment, step_pass, StepLoad(load, prefill=True))
    return _by_sequence(found)


def _by_sequence(ops: Sequence[Op]) -> list[Op]:
    return [op for op in ops if op.kernel in BY_SEQUENCE]
