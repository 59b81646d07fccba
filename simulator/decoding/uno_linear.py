"""Uno's linear sampler: one diffusion draft forward, one verification forward (Uno, Alg. 1)."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads
from simulator.speculation import ChainParameters

USES = Uses(adapter=True, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(ChainParameters):
    """*block* queries per forward: the last token and block - 1 noise tokens."""

    policy: Literal["uno-linear"]


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """A step is two forwards of *block* queries; the adapter acts on the block - 1 noise tokens.

    The draft forward yields one free token and block - 1 drafts, so verification runs on the
    free token and the drafts, one position further on. Both read logits at every query.
    """
    block = parameters.block
    emitted = setting.pace.steps(request).emitted_tokens
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    draft = loads(n, query=block, context=context, logits=block, adapter=block - 1)
    verify = loads(n, query=block, context=context + 1, logits=block)
    return Schedule(
        emitted,
        (Pass("draft", draft), Pass("verify", verify)),
        prefill_tokens=request.prompt_tokens,
        prefill_emits_tokens=1,
    )
