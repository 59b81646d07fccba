"""Entropy-bounded canvases: blocks of noise, encoded causally once finished (DiffusionGemma)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import Block, BlockParameters, separate_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.serial import replay_serially
from simulator.request import Request
from simulator.schedule import Schedule

USES = Uses()
REPLAYS = Replays(policies=("block-entropy",), from_prompt=True)


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward; the bound on entropy is the trace's affair."""

    policy: Literal["block-entropy"]
    block: Block = 256


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """A finished canvas is encoded once more, causally: that KV is what later ones see."""
    return separate_schedule(request, parameters, from_prompt=True)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:  # noqa: ARG001 (the interface)
    """A canvas ends where its recorded trajectory does: entropies are not on record."""
    replay_serially(blocks, blocks.trajectories.has_ended, store="separate")
