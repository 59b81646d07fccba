"""Linear self-speculation: the target drafts with its adapter on and verifies with it off."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads
from simulator.speculation import Block, ChainParameters

USES = Uses(adapter=True, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(ChainParameters):
    """*block* queries: the last token and block - 1 masks (32 in Nemotron-Labs-Diffusion)."""

    policy: Literal["self-speculation"]
    block: Block = 32

    @property
    def most_tokens_per_step(self) -> int:
        """Tokens of a step whose block - 1 drafts are all accepted."""
        return self.block


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Draft *block* queries that all see one another, then verify the block causally.

    The adapter acts on the whole draft, the last token included. What the draft leaves in the cache
    is written again by the verification, at the same places; only the masks need logits.
    """
    block = parameters.block
    emitted = setting.pace.steps(request).emitted_tokens
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    draft = loads(n, query=block, context=context, logits=block - 1, adapter=block)
    verify = loads(n, query=block, context=context, logits=block)
    passes = (Pass("draft", draft), Pass("verify", verify))
    return Schedule(emitted, passes, prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1)
