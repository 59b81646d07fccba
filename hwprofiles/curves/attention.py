"""Attention of a few or many queries per sequence over its keys and values."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain, p_norm
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import (
    AtLeastOne,
    Count,
    Domain,
    Flag,
    FloatArray,
    NonNegative,
    Positive,
)

# Queries and outputs are no narrower than bf16 whatever the KV cache holds.
QUERY_ELEMENT_BYTES = 2.0

# One model, or an array of them along the further axes.
HeadCount = float | FloatArray


@dataclass(frozen=True)
class HeadShape:
    """The heads that a batch is asked with, and what a number of their cache takes."""

    query_heads: HeadCount
    kv_heads: HeadCount
    head_dim: int
    kv_element_bytes: float

    @property
    def token_bytes(self) -> HeadCount:
        """Keys and values of one token."""
        return 2.0 * self.kv_heads * self.head_dim * self.kv_element_bytes

    def moved_bytes(self, queries: FloatArray, keys: FloatArray) -> FloatArray:
        """Keys and values read, queries read and outputs written, of sequences along axis 0."""
        element_bytes = max(QUERY_ELEMENT_BYTES, self.kv_element_bytes)
        query_bytes = 2.0 * self.query_heads * self.head_dim * element_bytes * queries.sum(axis=0)
        moved: FloatArray = self.token_bytes * keys.sum(axis=0) + query_bytes
        return moved

    def outside(
        self, domain: Domain, query_tokens: npt.ArrayLike, kv_tokens: npt.ArrayLike
    ) -> list[str]:
        """What about a batch lies outside *domain*; one sentence each."""
        queries, keys = present_sequences(query_tokens, kv_tokens)
        values: dict[str, npt.ArrayLike] = {
            "rows_per_kv_head": queries * (self.query_heads / self.kv_heads),
            "kv_tokens": keys,
            "kv_bytes": self.token_bytes * keys.sum(axis=0),
            "sequences": (queries > 0).sum(axis=0),
            "head_dim": self.head_dim,
        }
        return outside_domain(domain, values)


@dataclass(frozen=True)
class AttentionCurve:
    """t = launch + split + ((waves - 1) * wave_s, (bytes/bandwidth, flop/rate)_p)_q.

    (a, b)_p is the p-norm. The query heads that share a KV head are packed into the rows of a
    tile, as FlashAttention-3 does: q queries are ceil(q * heads per KV head / tile_rows) tiles
    per KV head. Each tile of each sequence and KV head is a unit; units run in waves over the
    multiprocessors. Rows of a lone tile are multiplied row_granule at a time, several tiles are
    all full. split = split_s * (1 -
    exp(-longest/split_kv_tokens)) is what cutting a long sequence along its keys and combining
    the parts adds; at most key_splits parts, which bounds how fast one unit can be.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["attention"]
    causal: Flag
    tile_rows: Count
    row_granule: Count
    multiprocessors: Count
    key_splits: Count
    launch_s: Positive
    split_s: NonNegative
    split_kv_tokens: Positive
    wave_s: NonNegative
    wave_power: AtLeastOne
    memory_bytes_per_s: Positive
    flop_per_s: Positive
    roof_power: AtLeastOne
    residual: Residual
    domain: Domain
    source: Source

    def time(  # noqa: PLR0913 (a model's sizes)
        self,
        query_tokens: npt.ArrayLike,
        kv_tokens: npt.ArrayLike,
        *,
        query_heads: HeadCount,
        kv_heads: HeadCount,
        head_dim: int,
        kv_element_bytes: float,
    ) -> KernelTime:
        """Time of one kernel over a batch, seconds, in the shape of the arrays less axis 0.

        Axis 0 of both arrays is the sequence; further axes broadcast. *kv_tokens* counts every
        key up to the last query, the sequence's own queries included, and is taken to be at
        least *query_tokens*. A sequence without queries is absent.
        """
        queries, keys = present_sequences(query_tokens, kv_tokens)
        rows = queries * (query_heads / kv_heads)
        shape = HeadShape(query_heads, kv_heads, head_dim, kv_element_bytes)
        memory = np.asarray(shape.moved_bytes(queries, keys) / self.memory_bytes_per_s)
        longest = np.asarray(keys.max(axis=0, initial=0.0))
        work = self._row_keys(rows, keys, queries_per_row=kv_heads / query_heads, heads=kv_heads)
        # A row meets a key in two products of head_dim: for the score and for the value.
        compute = 4.0 * head_dim * work / self.flop_per_s
        units = kv_heads * np.ceil(rows / self.tile_rows).sum(axis=0)
        waves = self.wave_s * np.maximum(np.ceil(units / self.multiprocessors) - 1.0, 0.0)
        split = self.split_s * -np.expm1(-longest / self.split_kv_tokens)
        fixed = np.where(longest > 0, self.launch_s + split, 0.0)
        roof = p_norm(memory, compute, power=self.roof_power)
        return KernelTime(
            seconds=fixed + p_norm(waves, roof, power=self.wave_power),
            compute_s=compute,
            memory_s=memory,
            link_s=np.zeros(memory.shape),
            launch_s=fixed + waves,
        )

    def outside(  # noqa: PLR0913 (as time)
        self,
        query_tokens: npt.ArrayLike,
        kv_tokens: npt.ArrayLike,
        *,
        query_heads: HeadCount,
        kv_heads: HeadCount,
        head_dim: int,
        kv_element_bytes: float,
    ) -> list[str]:
        """What about this batch lies outside the fitted range; one sentence each."""
        shape = HeadShape(query_heads, kv_heads, head_dim, kv_element_bytes)
        return shape.outside(self.domain, query_tokens, kv_tokens)

    def _row_keys(
        self, rows: FloatArray, keys: FloatArray, *, queries_per_row: HeadCount, heads: HeadCount
    ) -> FloatArray:
        """Row-key pairs the whole GPU has time for while the batch runs.

        All units shared out evenly, or, when that is more, the longest unit on its own parts.
        """
        tiles = np.ceil(rows / self.tile_rows)
        # Only a lone tile can be cut short; of several, the last is as large as the others.
        whole = np.where(tiles > 1, tiles * self.tile_rows, rows)
        granules = np.ceil(whole / self.row_granule)
        seen = granules * keys
        if self.causal:
            # Each granule of rows stops seeing keys one granule of queries before the next does.
            step = self.row_granule * queries_per_row
            seen = seen - step * granules * np.maximum(granules - 1.0, 0.0) / 2.0
        shared = heads * self.row_granule * seen.sum(axis=0)
        tile = np.minimum(self.row_granule * granules, self.tile_rows)
        alone = (tile * keys).max(axis=0, initial=0.0) * self.multiprocessors / self.key_splits
        pairs: FloatArray = np.maximum(shared, alone)
        return pairs


def present_sequences(
    query_tokens: npt.ArrayLike, kv_tokens: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Queries and keys as arrays of one shape, first axes matched; absent sequences have 0 keys."""
    arrays = [np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (query_tokens, kv_tokens)]
    axes = max(array.ndim for array in arrays)
    padded = [array.reshape(array.shape + (1,) * (axes - array.ndim)) for array in arrays]
    queries, keys = np.broadcast_arrays(*padded)
    return queries, np.where(queries > 0, np.maximum(keys, queries), 0.0)
