"""EngineProfile: what the serving software adds to the kernels, a few parameters with a meaning."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, Strict

STRICT = ConfigDict(extra="forbid")
Count = Annotated[int, Strict(), Field(gt=0, le=100_000_000)]
GraphBatch = Annotated[int, Strict(), Field(gt=0, le=100_000)]
Seconds = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Strict(), Field(gt=0, le=1)]
Share = Annotated[float, Strict(), Field(ge=0, lt=1)]
PrefillOrder = Literal["first", "interleaved", "mixed"]
KvAdmission = Literal["finished", "growing"]


@dataclass(frozen=True)
class Overhead:
    """Seconds that no kernel accounts for. All but *host_pass_s* multiply a count of the run."""

    __pydantic_config__ = STRICT

    step_s: Seconds = 0.0
    """Once per engine step: scheduling, input preparation, host synchronisation."""
    host_pass_s: Seconds = 0.0
    """Host work of a pass that its kernels hide: no launch of a pass takes less than this."""
    pass_s: Seconds = 0.0
    """Once per launch of a pass over the batch: graph replay, eager parts around it."""
    eager_pass_s: Seconds = 0.0
    """Per launch of a pass whose query count varies from step to step, outside CUDA graphs."""
    row_s: Seconds = 0.0
    """Per request in a step: per-request host work."""
    logit_s: Seconds = 0.0
    """Per LM-head row and vocabulary entry: sorting for top-p and top-k, sampling, confidence."""
    emission_s: Seconds = 0.0
    """Per request that emits tokens in a step: stop checks, opening the next block."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The parameters, in order."""
        return tuple(f.name for f in fields(cls))


@dataclass(frozen=True)
class Calibration:
    """What the overhead was fitted to, and what the fit leaves unexplained."""

    __pydantic_config__ = STRICT

    source: str
    fitted: tuple[str, ...]
    points: Count
    median_residual: Seconds
    p90_residual: Seconds
    worst_residual: Seconds


@dataclass(frozen=True)
class EngineProfile:
    """Serving software: overheads, KV layout, prefill, when rows leave, which rows are padded."""

    __pydantic_config__ = STRICT

    name: str
    description: str
    source: str
    overhead: Overhead = field(default_factory=Overhead)
    calibration: Calibration | None = None
    batching: Literal["static", "continuous", "draining", "barrier"] = "continuous"
    max_batch: Count = 256
    memory_utilisation: Ratio = 0.9
    """Share of the GPU's memory for weights, workspace and KV cache."""
    kv_layout: Literal["paged", "dense"] = "paged"
    """Dense reads the cache at its full allocated length in every decode forward."""
    kv_page_tokens: Count = 16
    kv_traffic_factor: Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)] = 1.0
    """Passes over the cache per decode forward; above 1 the engine copies what it reads."""
    kv_store: Literal["separate", "fused", "overlapped"] = "overlapped"
    """How the final KV of a finished block is written, see docs/design.md."""
    lm_head: Literal["sharded", "replicated"] = "sharded"
    """Over tensor-parallel ranks."""
    prefill_order: PrefillOrder = "first"
    """First: nobody decodes while a prompt waits. Interleaved: a decode step after each forward.
    Mixed: prompt tokens share the launch with the rows that decode, which come first."""
    prefill_chunk_tokens: Count | None = None
    """Prompt tokens of one request per prefill forward; whole prompts when absent."""
    prefill_batch_tokens: Count = 16384
    """Most prompt tokens of a prefill forward; of a mixed step, with the tokens that decode."""
    kv_admission: KvAdmission = "finished"
    """What a request is granted when it joins: its finished length, or its prompt, and then pages
    as they fill; the youngest is preempted when there are none, and starts anew."""
    kv_watermark: Share = 0.0
    """Share of the cache that must stay free when a request joins others."""
    prefix_caching: bool = False
    """Whether leading blocks of prompts stay in the cache for requests with the same."""
    row_layout: Literal["packed", "padded"] = "packed"
    """Padded: every row of a forward is as wide as the widest, in all but attention."""
    graph_batches: tuple[GraphBatch, ...] = ()
    """Batch sizes with a CUDA graph; a smaller batch is padded up to the next one."""

    def padded_rows(self, rows: int) -> int:
        """Rows that the forward really computes for *rows* live requests."""
        return next((size for size in sorted(self.graph_batches) if size >= rows), rows)

    def paged_tokens(self, tokens: npt.ArrayLike) -> Any:  # noqa: ANN401 (of the shape of *tokens*)
        """*tokens* rounded up to whole pages of cache."""
        return -(-np.asarray(tokens) // self.kv_page_tokens) * self.kv_page_tokens
