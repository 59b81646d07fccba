"""DMax: soft tokens that may all change until their block ends, one block at a time."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import BlockParameters, fused_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.serial import replay_serially
from simulator.request import Request
from simulator.schedule import Schedule

USES = Uses()
REPLAYS = Replays(policies=("dmax",))


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward; when a block ends is the trace's affair."""

    policy: Literal["dmax"]


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Tokens are hard only once their block has ended, so the next one's first forward stores it.

    That forward has 2 x block queries and LM-head rows.
    """
    return fused_schedule(request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:  # noqa: ARG001 (the interface)
    """A block ends where its trajectory does: how sure its tokens were is not on record."""
    replay_serially(blocks, blocks.trajectories.has_ended, store="fused")
