"""One block at a time with self-correction: unmask and edit in every forward (LLaDA-2.1)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import BlockParameters, block_steps, prefilled_tokens
from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, loads

USES = Uses()


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward."""

    policy: Literal["joint-threshold"]


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """A block ends with a forward that changes nothing, which has stored its KV: no extra one."""
    block = parameters.block
    steps = block_steps(request, parameters, least_forwards=2)
    denoise = loads(
        len(steps.emitted_tokens), query=block, context=steps.start_tokens, logits=block
    )
    prefill = prefilled_tokens(request.prompt_tokens, parameters.block)
    passes = (Pass("denoise", denoise),)
    return Schedule(steps.emitted_tokens, passes, prefill_tokens=prefill)
