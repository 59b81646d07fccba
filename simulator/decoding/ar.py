"""Autoregression: one query and one LM-head row per token."""

from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict

from simulator.decoding import Setting, Uses
from simulator.request import Request
from simulator.schedule import Pass, Schedule, context_before, loads

USES = Uses()


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Autoregression has none; a *trace* only tells how long requests are that repeat it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    policy: Literal["ar"]
    trace: str | None = None


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """One decode forward per token after the first, which the prefill samples."""
    emitted = setting.pace.steps(request).emitted_tokens
    # The newest token is the query; everything before it is in the cache.
    context = context_before(request.prompt_tokens + 1, emitted) - 1
    decode = Pass("decode", loads(len(emitted), query=1, context=context, logits=1))
    return Schedule(
        emitted, (decode,), prefill_tokens=request.prompt_tokens, prefill_emits_tokens=1
    )
