"""A fixed buffer of blocks with static shapes (Multi-Block Diffusion, Algorithm 5)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import BlockCount, BlockParameters, block_steps, prefilled_tokens
from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, loads

USES = Uses()


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*buffer* slots of *block* tokens."""

    policy: Literal["block-buffer"]
    buffer: BlockCount = 2


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward runs buffer x block rows, dummies included, through GEMMs and LM head.

    A finished block is stored by the next forward, beside later blocks; with one slot there is
    nothing beside it, so the block costs at least two forwards.
    """
    query = parameters.buffer * parameters.block
    steps = block_steps(request, parameters, least_forwards=2 if parameters.buffer == 1 else 1)
    denoise = loads(
        len(steps.emitted_tokens), query=query, context=steps.start_tokens, logits=query
    )
    prefill = prefilled_tokens(request.prompt_tokens, parameters.block)
    passes = (Pass("denoise", denoise),)
    return Schedule(steps.emitted_tokens, passes, prefill_tokens=prefill)
