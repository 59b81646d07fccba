"""Schedules of replayed requests: what the engine walks, cut from the tables of a replay."""

import numpy as np

from simulator import decoding
from simulator.replay.block_record import KIND, BlockTables
from simulator.replay.block_requests import BlockRequests
from simulator.schedule import Pass, Schedule, loads


def schedules_of(
    tables: BlockTables, requests: BlockRequests, replays: decoding.Replays
) -> list[Schedule]:
    """A schedule for each request: the forwards behind its prefill, padding included.

    A forward that stores one block beside another has logits of both, as dInfer computes them; the
    reference decoder asks for those of one.
    """
    steps = tables.steps
    logits = np.where(
        steps["kind"] == KIND["fused-store"], steps["padded_tokens"], steps["logit_rows"]
    )
    is_decode = steps["kind"] != KIND["prefill"]
    made = []
    for row, (first, end) in enumerate(
        zip(tables.first_step[:-1], tables.first_step[1:], strict=True)
    ):
        there = np.flatnonzero(is_decode[first:end]) + first
        denoise = loads(
            len(there),
            query=steps["padded_tokens"][there],
            context=steps["prefix_tokens"][there],
            logits=logits[there],
        )
        emitted = steps["committed_tokens"][there]
        passes = (Pass("denoise", denoise),)
        prefill = int(requests.start[row]) if replays.prefills else 0
        made.append(Schedule(emitted, passes, prefill_tokens=prefill))
    return made
