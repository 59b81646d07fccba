"""DFlash: a block-diffusion drafter fed with the target's features, then verification."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, emitted_before, loads
from simulator.speculation import Block, ChainParameters

DRAFTER = "dflash"
USES = Uses(drafter=DRAFTER, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(ChainParameters):
    """*block* queries: the last token and block - 1 masks."""

    policy: Literal["dflash"]
    block: Block = 16

    @property
    def most_tokens_per_step(self) -> int:
        """Tokens of a step whose block - 1 drafts are all accepted."""
        return self.block


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """One drafter forward over the block, its LM head on the masks; verify the block.

    The features of the tokens accepted in the last step enter as extra keys and values; those of
    the prompt have done so in the prefill.
    """
    block = parameters.block
    emitted = setting.pace.steps(request).emitted_tokens
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    features = emitted_before(emitted)
    features[:1] = 0
    draft = loads(n, query=block, context=context, logits=block - 1, features=features)
    verify = loads(n, query=block, context=context, logits=block)
    return Schedule(
        emitted,
        (Pass("draft", draft, stack=DRAFTER), Pass("verify", verify)),
        prefill_tokens=request.prompt_tokens,
        prefill_emits_tokens=1,
    )
