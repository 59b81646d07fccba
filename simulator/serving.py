"""Serving: what a scenario sets otherwise than its engine's profile does."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, Strict

from simulator.engine_profile import Count, GraphBatch, KvAdmission, PrefillOrder, Share

STRICT = ConfigDict(extra="forbid")
Chunk = Count | Literal["whole", "block"]
Replicas = Annotated[int, Strict(), Field(ge=1, le=1024)]
Seconds = Annotated[float, Strict(), Field(ge=0, le=1e3, allow_inf_nan=False)]
BytesPerSecond = Annotated[float, Strict(), Field(ge=1e6, le=1e15, allow_inf_nan=False)]


@dataclass(frozen=True)
class ServingChoice:
    """Overrides of the engine's prefill and cache; what is absent is as the engine does it."""

    __pydantic_config__ = STRICT

    prefill_order: PrefillOrder | None = None
    prefill_chunk_tokens: Chunk | None = None
    """Tokens, `whole` prompts, or a `block` of the decoding policy at a time."""
    prefill_batch_tokens: Count | None = None
    kv_admission: KvAdmission | None = None
    kv_watermark: Share | None = None
    kv_page_tokens: Count | None = None
    prefix_caching: Annotated[bool, Strict()] | None = None
    graph_batches: Annotated[tuple[GraphBatch, ...], Field(max_length=4096)] | None = None
    """Batch sizes with a CUDA graph; none for a forward of exactly the batch."""

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Disaggregation:
    """Replicas of their own fill prompts; the cache goes over a link to those that decode.

    Each of the *prefill_replicas* has one link and sends one cache after the other.
    """

    __pydantic_config__ = STRICT

    prefill_replicas: Replicas
    link_bytes_per_s: BytesPerSecond
    link_latency_s: Seconds = 0.0
