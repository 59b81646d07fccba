"""EAGLE-3 with a draft tree: top-k expansion level by level, then one tree verification."""

from dataclasses import dataclass
from typing import Literal

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, emitted_before, loads
from simulator.speculation import Block, TreeParameters, Width

DRAFTER = "eagle3"
# EAGLE drafts 7 levels after the first forward and the Uno paper keeps that for every tree
# (appendix C.1.2); its block only caps it.
MOST_LEVELS = 7
USES = Uses(drafter=DRAFTER, acceptance=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(TreeParameters):
    """(B, K, V) as *block*, *top_k*, *tree_size*; defaults are the Uno paper's (section 5.2.3)."""

    policy: Literal["eagle3-tree"]
    block: Block = 8
    top_k: Width = 32
    tree_size: Width = 60


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Take in the accepted tokens, expand levels of *top_k*, verify the root and the best nodes.

    The drafter's cache is as in the chain; nodes of a level attend to those of earlier levels.
    """
    top_k = parameters.top_k
    levels = min(parameters.block - 1, MOST_LEVELS)
    steps = setting.pace.steps(request)
    emitted, nodes = steps.emitted_tokens, 1 + steps.verified_drafts(parameters.tree_size)
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    n = len(emitted)
    accepted = emitted_before(emitted)
    first = loads(n, query=accepted, context=context - accepted, logits=1, features=accepted)
    level = loads(n, query=top_k, context=context, logits=top_k)
    verify = loads(n, query=nodes, context=context, logits=nodes, moved=steps.moved_tokens)
    passes = (
        Pass("draft-first", first, stack=DRAFTER, eager=True),
        Pass("draft", level, stack=DRAFTER, launches=levels, stored_tokens=top_k),
        Pass("verify", verify),
    )
    return Schedule(emitted, passes, prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1)
