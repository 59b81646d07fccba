"""One block at a time with a confidence threshold (LLaDA-2.0, SDAR)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.blocks import BlockParameters, block_steps, prefilled_tokens
from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import IntArray, Pass, Schedule, loads

USES = Uses()


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward; how KV is stored is the engine's affair."""

    policy: Literal["single-block"]


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Denoise each block, then store it as the engine does.

    Separate (and overlapped, which has nothing to overlap with in a single block): one more
    forward per block, whose tokens came out one forward earlier. Fused: the next block's first
    forward carries the finished block too, so it has 2 x block queries and LM-head rows.
    """
    block = parameters.block
    fused = setting.engine.kv_store == "fused"
    steps = block_steps(request, parameters, least_forwards=1 if fused else 2)
    emitted, context = steps.emitted_tokens, steps.start_tokens
    query: IntArray | int = block
    if fused:
        carries = steps.opens_block * (steps.block_index > 0)
        query = block * (1 + carries)
        context = context - block * carries
    else:
        emitted = np.append(emitted[1:], 0)
        # The last block's store has no reader.
        emitted, context = emitted[:-1], context[:-1]
    denoise = loads(len(emitted), query=query, context=context, logits=query)
    prefill = prefilled_tokens(request.prompt_tokens, block)
    return Schedule(emitted, (Pass("denoise", denoise),), prefill_tokens=prefill)
