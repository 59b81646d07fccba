"""Uno's tree sampler: the linear draft, then a token tree verified at once (Uno, section 4.2)."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads
from simulator.speculation import TreeParameters

USES = Uses(adapter=True, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(TreeParameters):
    """(B, K, V) of the paper are *block*, *top_k* and *tree_size*."""

    policy: Literal["uno-tree"]

    @property
    def most_tokens_per_step(self) -> int:
        """The free token, the longest path of at most block - 1 drafts, and one more."""
        return min(self.block - 1, self.tree_size) + 2


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Draft with *block* queries; verify the root and *tree_size* nodes."""
    block = parameters.block
    steps = setting.pace.steps(request)
    emitted, nodes = steps.emitted_tokens, 1 + steps.verified_drafts(parameters.tree_size)
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    draft = loads(n, query=block, context=context, logits=block, adapter=block - 1)
    verify = loads(n, query=nodes, context=context + 1, logits=nodes, moved=steps.moved_tokens)
    return Schedule(
        emitted,
        (Pass("draft", draft), Pass("verify", verify)),
        prefill_tokens=request.prompt_tokens,
        prefill_emits_tokens=1,
    )
