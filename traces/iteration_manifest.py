"""IterationManifest: what a trace of iterations says about itself beyond what every trace does."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from traces.captured import CapturedManifest, Counts, RequestCounts, Sha256, Whole
from traces.iteration_tables import SCHEMAS
from traces.manifest import STRICT, Count, Text


@dataclass(frozen=True)
class TracedTarget:
    """The weights that verified; without a drafter, the checkpoint itself."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: Text
    sha256: Sha256


@dataclass(frozen=True)
class IterationForwards(RequestCounts):
    """The iterations, and the forwards that they are made of."""

    iterations: Whole
    draft_forwards: Whole
    verify_forwards: Whole
    """Those of autoregression included."""


@dataclass(frozen=True)
class IterationCounts(Counts, IterationForwards):
    """Totals over the trace; forwards of requests, and forwards of whole batches."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True)
class IterationManifest(CapturedManifest):
    """A captured trace of the iterations of a speculative decoder: a draft, its verification."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    TABLES: ClassVar[tuple[str, ...]] = tuple(SCHEMAS)

    records: Literal["iterations"]
    counts: IterationCounts
    target: TracedTarget
    guaranteed_tokens: Count
    """Tokens that an iteration emits even when it accepts no draft."""
