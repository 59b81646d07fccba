"""Decoding policies, one module each: a policy turns a request into a Schedule.

A module `some_name.py` is the policy `some-name`. It has a frozen dataclass `Parameters`, a
constant `USES`, and a function `schedule(request, parameters, setting) -> Schedule`. One that also
replays traces of blocks has a constant `REPLAYS` and a function `replay(blocks, parameters)`, which
runs its state machine over recorded blocks, all requests at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from simulator.folder_modules import module_in, names_in

if TYPE_CHECKING:  # names() must stay quick
    from simulator.engine_profile import EngineProfile
    from simulator.pace import Pace
    from simulator.replay.block_replay import BlockReplay
    from simulator.request import Request
    from simulator.schedule import Schedule


@dataclass(frozen=True)
class Uses:
    """What a policy needs beside the target model."""

    drafter: str | None = None
    """Name of the drafter in the model's file."""
    adapter: bool = False
    """Whether drafting runs the target with its low-rank adapter."""
    acceptance: bool = False
    """Whether the pace comes from acceptance (tokens per step or an acceptance trace)."""


@dataclass(frozen=True)
class Replays:
    """Which traces of blocks a policy can replay, and how its requests begin."""

    policies: tuple[str, ...]
    """Those whose update rule it shares, itself included."""
    free: tuple[str, ...] = ()
    """Parameters that a replay may change; the others are in what the trace recorded."""
    from_prompt: bool = False
    """Whether blocks are counted from the prompt's end, not from its last whole block."""
    prefills: bool = True
    """Whether what lies before block 0 is prefilled; else the first decode forward takes it too."""


@dataclass(frozen=True)
class Setting:
    """What the schedule of a request depends on beside its own lengths and parameters."""

    pace: Pace
    engine: EngineProfile


class Policy(Protocol):
    """The interface of a policy module."""

    Parameters: type[Any]
    USES: Uses
    REPLAYS: Replays
    """Only of policies that replay traces of blocks, which also have `replay`."""

    def schedule(self, request: Request, parameters: Any, setting: Setting) -> Schedule:  # noqa: ANN401 (each policy has its own)
        """The decode steps of *request*."""

    def replay(self, blocks: BlockReplay, parameters: Any) -> None:  # noqa: ANN401 (each policy has its own)
        """Run the state machine over recorded blocks, all requests at once, to their end."""


def names() -> list[str]:
    """Every policy in the folder."""
    return names_in(__path__)


def policy(name: str) -> Policy:
    """The policy module *name*; raises KeyError for one that is not in the folder."""
    return cast("Policy", module_in(__name__, __path__, name))
