"""Attention of a few or many queries per sequence over its keys and values."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.smooth import outside_domain, p_norm, p_norm_of_times
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

    def moved_parts(self, queries: FloatArray, keys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bytes of keys and values read, and of queries read and outputs written, by sequence."""
        element_bytes = max(QUERY_ELEMENT_BYTES, self.kv_element_bytes)
        query_bytes = 2.0 * self.query_heads * self.head_dim * element_bytes
        return self.token_bytes * keys, query_bytes * queries

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
class RowTerms:
    """What sequences add to a batch: its time depends on them through sums and maxima alone.

    So sequences that join a batch at different times can be added up, whatever the others do.
    """

    sums: FloatArray
    """[N_SUMS of the curve, sequences, ...]."""
    maxima: FloatArray
    """[N_MAXIMA of the curve, sequences, ...]."""

    def of_batch(self) -> tuple[FloatArray, FloatArray]:
        """Sums [N_SUMS, ...] and maxima [N_MAXIMA, ...] over the sequences."""
        return np.add.reduce(self.sums, axis=1), np.maximum.reduce(self.maxima, axis=1, initial=0.0)


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
    N_SUMS: ClassVar[int] = 3
    N_MAXIMA: ClassVar[int] = 2

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
        shape = HeadShape(query_heads, kv_heads, head_dim, kv_element_bytes)
        return self.time_of(*self.row_terms(queries, keys, shape).of_batch())

    def row_terms(self, queries: FloatArray, keys: FloatArray, shape: HeadShape) -> RowTerms:
        """Terms of each sequence: bytes moved, flop of its granules, and units.

        Maxima: seconds of launch and splitting, and the flop of as many units like its own as it
        has parts on the whole GPU. *queries* broadcasts to the shape of *keys*; both are 0 where a
        sequence is absent.
        """
        tiles, granules = self._tiles(queries * (shape.query_heads / shape.kv_heads))
        # A row meets a key in two products of head_dim: for the score and for the value.
        pair_flop = 4.0 * shape.head_dim
        seen = self._seen(granules, keys, queries_per_row=shape.kv_heads / shape.query_heads)
        sums = np.empty((self.N_SUMS, *seen.shape))
        np.add(*shape.moved_parts(queries, keys), out=sums[0])
        np.multiply(seen, pair_flop * shape.kv_heads * self.row_granule, out=sums[1])
        np.multiply(tiles, shape.kv_heads, out=sums[2])
        maxima = np.empty((self.N_MAXIMA, *seen.shape))
        self._fixed_s(keys, out=maxima[0])
        alone = np.multiply(self._largest_tile(granules), keys, out=maxima[1])
        alone *= pair_flop * self.multiprocessors / self.key_splits
        return RowTerms(sums, maxima)

    def _fixed_s(self, keys: FloatArray, out: FloatArray) -> None:
        """Launch and splitting, which grow with the longest sequence and nothing else."""
        rates = self._rates
        np.multiply(keys > rates.none, rates.launch_s, out)
        if self.split_s:
            split = np.divide(keys, rates.split_kv_tokens)
            np.negative(split, split)
            np.expm1(split, split)
            out -= split * rates.split_s

    def time_of(self, sums: FloatArray, maxima: FloatArray) -> KernelTime:
        """Time of a kernel over a batch of these `row_terms`, [...]."""
        memory, compute, waves, fixed = self._parts(sums, maxima)
        roof = p_norm(memory, compute, power=self.roof_power)
        return KernelTime(
            seconds=fixed + p_norm(waves, roof, power=self.wave_power),
            compute_s=compute,
            memory_s=memory,
            link_s=np.zeros(memory.shape),
            launch_s=fixed + waves,
        )

    def seconds_of(self, sums: FloatArray, maxima: FloatArray) -> FloatArray:
        """The seconds of `time_of` alone, to rounding, for arrays of at least one further axis."""
        rates = self._rates
        memory = np.divide(sums[0], rates.memory_bytes_per_s)
        compute = np.maximum(sums[1], maxima[1])
        np.divide(compute, rates.flop_per_s, compute)
        waves = np.divide(sums[2], rates.multiprocessors)
        np.ceil(waves, waves)
        np.subtract(waves, rates.one, waves)
        np.maximum(waves, rates.none, out=waves)
        np.multiply(waves, rates.wave_s, waves)
        roof = p_norm_of_times(memory, compute, power=self.roof_power)
        seconds: FloatArray = maxima[0] + p_norm_of_times(waves, roof, power=self.wave_power)
        return seconds

    @cached_property
    def _rates(self) -> "_Rates":
        own = [float(getattr(self, name)) for name in _Rates._fields[2:]]
        return _Rates(*(np.asarray(number) for number in (0.0, 1.0, *own)))

    def _parts(
        self, sums: FloatArray, maxima: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Seconds of bytes, arithmetic, waves but the last, and launch with splitting.

        All units share the work evenly, or, when that is more, the longest one is alone.
        """
        moved, shared, units = sums
        fixed, alone = maxima
        memory = np.asarray(moved / self.memory_bytes_per_s)
        compute = np.maximum(shared, alone) / self.flop_per_s
        waves = self.wave_s * np.maximum(np.ceil(units / self.multiprocessors) - 1.0, 0.0)
        return memory, compute, waves, fixed

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

    def _tiles(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Tiles of *rows* of a KV head, and granules of rows that are multiplied in them."""
        rates = self._rates
        tiles = np.ceil(rows / rates.tile_rows)
        if self.row_granule == self.tile_rows:
            return tiles, tiles
        # Only a lone tile can be cut short; of several, the last is as large as the others.
        whole = np.maximum(rows, tiles * ((tiles > rates.one) * rates.tile_rows))
        return tiles, np.ceil(whole / rates.row_granule)

    def _largest_tile(self, granules: FloatArray) -> FloatArray | float:
        """Rows that a tile of each sequence multiplies; any number where there are none."""
        if self.row_granule == self.tile_rows:
            return float(self.tile_rows)
        return np.minimum(self._rates.row_granule * granules, self._rates.tile_rows)

    def _seen(
        self, granules: FloatArray, keys: FloatArray, *, queries_per_row: HeadCount
    ) -> FloatArray:
        """Keys that each granule of rows meets, added up over the granules."""
        seen = granules * keys
        if self.causal:
            # Each granule of rows stops seeing keys one granule of queries before the next does.
            step = self.row_granule * queries_per_row
            seen = seen - (step / 2.0) * granules * (granules - 1.0)
        return seen


class _Rates(NamedTuple):
    """Constants of a curve as arrays, which cost half of what numbers do beside short arrays."""

    none: FloatArray
    one: FloatArray
    tile_rows: FloatArray
    row_granule: FloatArray
    multiprocessors: FloatArray
    launch_s: FloatArray
    split_s: FloatArray
    split_kv_tokens: FloatArray
    wave_s: FloatArray
    memory_bytes_per_s: FloatArray
    flop_per_s: FloatArray


def present_sequences(
    query_tokens: npt.ArrayLike, kv_tokens: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Queries and keys as arrays of one shape, first axes matched; absent sequences have 0 keys."""
    arrays = [np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (query_tokens, kv_tokens)]
    axes = max(array.ndim for array in arrays)
    padded = [array.reshape(array.shape + (1,) * (axes - array.ndim)) for array in arrays]
    queries, keys = np.broadcast_arrays(*padded)
    return queries, np.where(queries > 0, np.maximum(keys, queries), 0.0)
