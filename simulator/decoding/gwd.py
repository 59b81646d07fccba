"""Gated wavefront decoding: a window of blocks, the leading one retires (FlowBlock, Alg. 1)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import BlockCount, BlockParameters, block_steps, prefilled_tokens
from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, loads

USES = Uses()


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*window* blocks in flight."""

    policy: Literal["gwd"]
    window: BlockCount = 2


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward has window x block queries and LM-head rows, admitted or not.

    The retiring forward changed nothing in its block, so it has stored it (section 4.1).
    """
    query = parameters.window * parameters.block
    steps = block_steps(request, parameters, least_forwards=1)
    denoise = loads(
        len(steps.emitted_tokens), query=query, context=steps.start_tokens, logits=query
    )
    prefill = prefilled_tokens(request.prompt_tokens, parameters.block)
    passes = (Pass("denoise", denoise),)
    return Schedule(steps.emitted_tokens, passes, prefill_tokens=prefill)
