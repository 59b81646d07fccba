"""EAGLE-3 with a draft tree: top-k expansion level by level, then one tree verification."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads
from simulator.speculation import Block, TreeParameters, Width

DRAFTER = "eagle3"
USES = Uses(drafter=DRAFTER, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(TreeParameters):
    """A tree *block* deep with *top_k* queries a level (EAGLE: depth 7, top-k 10, 60 nodes)."""

    policy: Literal["eagle3-tree"]
    block: Block = 8
    top_k: Width = 10
    tree_size: Width = 60


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Take in the accepted tokens, expand block - 1 levels of *top_k*, verify the best nodes."""
    nodes, top_k = parameters.tree_size + 1, parameters.top_k
    emitted = setting.pace.emitted(request.output_tokens - 1, request.key)
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    accepted = emitted.clip(1)
    first = loads(n, query=accepted, context=context, logits=1, features=accepted)
    level = loads(n, query=top_k, context=context + 1, logits=top_k)
    verify = loads(n, query=nodes, context=context, logits=nodes)
    passes = [Pass("draft-first", first, stack=DRAFTER, eager=True), Pass("verify", verify)]
    passes.insert(1, Pass("draft", level, stack=DRAFTER, launches=min(parameters.block, 8) - 1))
    return Schedule(
        emitted, tuple(passes), prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1
    )
