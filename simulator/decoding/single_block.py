"""One block at a time with a confidence threshold (LLaDA-2.0, SDAR)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import BlockParameters, fused_schedule, separate_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.serial import Store, replay_serially
from simulator.request import Request
from simulator.schedule import Schedule

USES = Uses()
REPLAYS = Replays(policies=("single-block", "multi-block", "block-buffer"), free=("store",))


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward."""

    policy: Literal["single-block"]
    store: Literal["separate", "fused", "overlapped"] | None = None
    """How the KV of a finished block is stored; as the engine does when absent. Overlapped is
    separate, since in a single block there is nothing to overlap with."""


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:
    """Denoise each block, then store it: in a forward of its own, or beside the next block."""
    if (parameters.store or setting.engine.kv_store) == "fused":
        return fused_schedule(request, parameters)
    return separate_schedule(request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """A block ends with the forward that reveals its last mask."""
    store: Store = "fused" if parameters.store == "fused" else "separate"
    replay_serially(blocks, lambda done: done.masked == done.revealed, store=store)
