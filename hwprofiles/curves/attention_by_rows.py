"""Attention where the time of a key is tabulated by the rows that meet it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.attention import (
    QUERY_ELEMENT_BYTES,
    HeadCount,
    attention_sizes,
    present_sequences,
)
from hwprofiles.curves.smooth import outside_domain
from hwprofiles.curves.tables import check_rising
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Domain, Flag, FloatArray, NonNegative, Positive


@dataclass(frozen=True)
class KeyTable:
    """Seconds that the rows of one KV head take at one key, both rising."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    rows: list[Positive]
    key_s: list[Positive]

    def __post_init__(self) -> None:
        """Raise ValueError, naming the rows, where the table cannot be read or falls."""
        check_rising("rows", self.rows, "key_s", self.key_s)

    def lookup(self, rows: FloatArray) -> FloatArray:
        """Linear in the logarithms; flat below, in proportion to the rows above."""
        known, times = np.asarray(self.rows), np.asarray(self.key_s)
        inside = np.exp(np.interp(np.log(rows), np.log(known), np.log(times)))
        seconds: FloatArray = inside * np.maximum(rows / known[-1], 1.0)
        return seconds


@dataclass(frozen=True)
class AttentionByRowsCurve:
    """t = launch_s + sum over sequences of KV heads x (keys x key_s(rows) + rows x row_s).

    *rows* are those of one KV head. A CPU library changes its blocking with them, and its soft-max,
    which no product hides, makes time anything but proportional to them; so key_s is tabulated, for
    each head size measured. row_s is what a row costs once: packing, storing, writing out. Of a
    causal prompt a row meets half of the keys: what counts is how many it meets on average.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Literal["attention-by-rows"]
    causal: Flag
    launch_s: Positive
    row_s: NonNegative
    by_head_dim: dict[Count, KeyTable]
    memory_bytes_per_s: Positive
    """The fastest that keys and values were read."""
    flop_per_s: Positive
    """The fastest that was calculated."""
    residual: Residual
    domain: Domain
    source: Source

    def __post_init__(self) -> None:
        """Raise ValueError where no head size is tabulated."""
        if not self.by_head_dim:
            rule = "by_head_dim has a table for at least one head size, got none"
            raise ValueError(rule)

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
        """Time of one kernel over a batch, seconds; arguments and shape as of `AttentionCurve`."""
        queries, keys = present_sequences(query_tokens, kv_tokens)
        rows = queries * (query_heads / kv_heads)
        met = keys - np.maximum(queries - 1.0, 0.0) / 2.0 if self.causal else keys
        each_s = self.key_time_s(np.maximum(rows, 1.0), head_dim)
        work = (np.where(queries > 0, met, 0.0) * each_s + rows * self.row_s).sum(axis=0)
        launch = np.where(keys.max(axis=0, initial=0.0) > 0, self.launch_s, 0.0)
        seconds = launch + kv_heads * work
        element_bytes = max(QUERY_ELEMENT_BYTES, kv_element_bytes)
        moved = 2.0 * kv_heads * head_dim * kv_element_bytes * keys.sum(axis=0)
        moved = moved + 2.0 * query_heads * head_dim * element_bytes * queries.sum(axis=0)
        flop = 4.0 * head_dim * kv_heads * (rows * met).sum(axis=0)
        return KernelTime(
            seconds=seconds,
            # The fastest kernels seen may beat what this curve says of a size.
            compute_s=np.minimum(seconds, flop / self.flop_per_s),
            memory_s=np.minimum(seconds, moved / self.memory_bytes_per_s),
            link_s=np.zeros(np.shape(seconds)),
            launch_s=launch,
        )

    def key_time_s(self, rows: FloatArray, head_dim: int) -> FloatArray:
        """Seconds at a key of *head_dim*: between the nearest head sizes in the logarithms.

        Beyond the least and the largest in proportion to the head size.
        """
        known = sorted(self.by_head_dim)
        below = max((size for size in known if size <= head_dim), default=known[0])
        above = min((size for size in known if size >= head_dim), default=known[-1])
        low, high = (self.by_head_dim[size].lookup(rows) for size in (below, above))
        if below == above:
            return low * (head_dim / below)
        share = np.log(head_dim / below) / np.log(above / below)
        seconds: FloatArray = low ** (1 - share) * high**share
        return seconds

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
        queries, keys = present_sequences(query_tokens, kv_tokens)
        token_bytes = 2.0 * kv_heads * head_dim * kv_element_bytes
        sizes = attention_sizes(queries, keys, query_heads / kv_heads, token_bytes)
        return outside_domain(self.domain, sizes | {"head_dim": head_dim})
