"""What the fits must know of a device, and what a profile says of it beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwprofiles.profile import Peaks

CPU_ATTENTION: Mapping[str, Any] = {
    "tile_rows": (32, 64, 256),
    "row_granules": (8,),
    "key_splits": 1,
}
"""torch's attention on a CPU cuts queries into 32, 64 or 256 rows and never cuts the keys."""


@dataclass(frozen=True)
class Device:
    """A device as it was measured; the defaults are those of an NVIDIA GPU."""

    name: str
    description: str
    memory_bytes: float
    last_level_cache_bytes: float
    multiprocessors: int
    source: str
    """Who measured what with which software: the provenance of every curve begins with it."""
    peaks: Peaks | None = None
    """From the data sheet; what was measured at most where there is none."""
    tile_rows: Sequence[int] = (128,)
    """Rows of an attention tile: the ones to try."""
    row_granules: Sequence[int] = (16,)
    key_splits: int = 128
    """Most parts that a library cuts the keys of one sequence into."""
    few_full_tiles: bool = False
    """Whether too few queries over a prefix fill a tile to say how fast they are multiplied.

    Their rate is then that of prompts.
    """
    tabulates: bool = False
    """Whether a table by rows is tried for products beside the closed form."""
    one_model: bool = False
    """Whether the points are all sizes of one model: products and row kernels are tables of them,
    since nothing in between is asked for."""
    environment: Mapping[str, str] | None = None
    points: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """More to say about the source of a kernel."""
    held_out_in: int = 10
    """One point in this many is kept out of every fit."""
