"""Quadratic sampler: one forward verifies drafts and drafts behind every outcome (TiDAR).

No code of it is public, so this is an estimate: a step of k drafts is one forward of
k + k (k + 1) queries, the drafts and, for each of the k + 1 numbers of them that may be accepted, a
group of k masks. The count is the published one; these readings are ours:

- k is *block* - 1, so that a block has as many drafts to verify as Uno's linear sampler;
- the newest token is taken to be in the cache: the count has no query for it;
- the adapter acts on the masks alone, and every query has a row of logits;
- a step emits the accepted drafts and one more token, and drafts are accepted as often as those of
  the linear sampler at the same block, whose steps emit one token more: the free one.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads
from simulator.speculation import ChainParameters

USES = Uses(adapter=True, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(ChainParameters):
    """*block* - 1 drafts a step; a trace of `uno-linear` says how many are accepted."""

    TRACES_OF: ClassVar[str | None] = "uno-linear"
    FORGONE_TOKENS: ClassVar[int] = 1
    """The linear sampler's free token."""

    policy: Literal["quadratic"]

    @property
    def most_tokens_per_step(self) -> int:
        """The drafts, all accepted, and one more."""
        return self.block


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """One forward a step: k drafts and k + 1 groups of k masks, over all that is known."""
    drafts = parameters.block - 1
    masks = drafts * (drafts + 1)
    query = drafts + masks
    emitted = setting.pace.steps(request).emitted_tokens
    context = context_before(request.prompt_tokens + 1, emitted)
    step = loads(len(emitted), query=query, context=context, logits=query, adapter=masks)
    passes = (Pass("draft-and-verify", step),)
    return Schedule(emitted, passes, prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1)
