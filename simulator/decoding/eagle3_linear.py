"""EAGLE-3 with a chain of drafts: a one-layer drafter, token after token, then verification."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, emitted_before, loads
from simulator.speculation import ChainParameters

DRAFTER = "eagle3"
USES = Uses(drafter=DRAFTER, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(ChainParameters):
    """*block* drafts per step (Uno, C.1.2: "B draft tokens")."""

    policy: Literal["eagle3-linear"]


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Take in the accepted tokens' features, draft one token at a time, verify block + 1.

    The drafter has each feature beside the token behind it, so none stands for the first token
    and its cache holds a token less than the target's. What it drafts stays there for the step.
    """
    block = parameters.block
    emitted = setting.pace.steps(request).emitted_tokens
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    accepted = emitted_before(emitted)
    first = loads(n, query=accepted, context=context - accepted, logits=1, features=accepted)
    chain = loads(n, query=1, context=context, logits=1)
    verify = loads(n, query=block + 1, context=context, logits=block + 1)
    passes = (
        Pass("draft-first", first, stack=DRAFTER, eager=True),
        Pass("draft", chain, stack=DRAFTER, launches=block - 1, stored_tokens=1),
        Pass("verify", verify),
    )
    return Schedule(emitted, passes, prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1)
