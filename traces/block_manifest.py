"""BlockManifest: what a trace of blocks says about itself beyond what every trace does."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from traces.block_tables import SCHEMAS
from traces.captured import CapturedManifest, Counts, RequestCounts, Whole
from traces.manifest import STRICT


@dataclass(frozen=True)
class BlockForwards(RequestCounts):
    """The forwards that follow a prefill."""

    denoise_forwards: Whole
    """Those that store a finished block beside it included."""
    store_forwards: Whole
    """Those that only store."""


@dataclass(frozen=True)
class BlockCounts(Counts, BlockForwards):
    """Totals over the trace; forwards of requests, and forwards of whole batches."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True)
class BlockManifest(CapturedManifest):
    """A captured trace of the blocks that a block-diffusion decoder made."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    TABLES: ClassVar[tuple[str, ...]] = tuple(SCHEMAS)

    records: Literal["blocks"]
    counts: BlockCounts
