"""Attention whose time is tabulated by the rows that meet a key, or by the keys of a prompt."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from hwprofiles.curves.attention import HeadCount, HeadShape, RowTerms, present_sequences
from hwprofiles.curves.by_head_dim import SizeTable, at_head_dim, check_head_sizes
from hwprofiles.kernel_time import KernelTime
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Domain, FloatArray, NonNegative, Positive


@dataclass(frozen=True)
class AttentionTableCurve:
    """t = launch_s + query rows x row_s + a tabulated part, for each head size measured.

    By rows, for queries over a prefix: KV heads x keys x table(rows of a KV head), the table being
    what those rows take at one key. By keys, for causal prompts: query heads x queries x share x
    table(keys), the table being what a query takes that sees all keys, and share the part of them
    that queries see on average, 1 - (queries - 1) / (2 keys). Both summed over the sequences.

    CPU libraries change their blocking with rows and keys, and their soft-max, which no product
    hides, does not depend on the head size; so no roofline describes them. row_s is what a query
    row costs once: packing, storing, writing out; sequence_s what a sequence does.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    N_SUMS: ClassVar[int] = 4
    N_MAXIMA: ClassVar[int] = 0

    form: Literal["attention-table"]
    by: Literal["rows", "keys"]
    launch_s: Positive
    row_s: NonNegative
    by_head_dim: dict[Count, SizeTable]
    memory_bytes_per_s: Positive
    """The fastest that keys and values were read."""
    flop_per_s: Positive
    """The fastest that was calculated."""
    residual: Residual
    domain: Domain
    source: Source
    sequence_s: NonNegative = 0.0
    """What a sequence costs however short: a call of its own where lengths differ."""

    def __post_init__(self) -> None:
        """Raise ValueError where no head size is tabulated."""
        check_head_sizes(self.by_head_dim)

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
        shape = HeadShape(query_heads, kv_heads, head_dim, kv_element_bytes)
        return self.time_of(*self.row_terms(queries, keys, shape).of_batch())

    def row_terms(self, queries: FloatArray, keys: FloatArray, shape: HeadShape) -> RowTerms:
        """Terms of each sequence: its seconds, bytes moved, flop, and 1 where it is present.

        There are no maxima. *queries* broadcasts to the shape of *keys*; both are 0 where a
        sequence is absent.
        """
        query_heads, share = shape.query_heads, np.ones(keys.shape)
        if self.by == "keys":
            share -= np.maximum(queries - 1.0, 0.0) / (2.0 * np.maximum(keys, 1.0))
            pieces, sizes = query_heads * queries * share, keys
        else:
            pieces, sizes = shape.kv_heads * keys, queries * (query_heads / shape.kv_heads)
        each_s = at_head_dim(self.by_head_dim, shape.head_dim, np.maximum(sizes, 1.0))
        present = queries > 0
        sums = np.empty((self.N_SUMS, *pieces.shape))
        sums[0] = pieces * each_s + query_heads * queries * self.row_s + self.sequence_s * present
        np.add(*shape.moved_parts(queries, keys), out=sums[1])
        sums[2] = 4.0 * shape.head_dim * query_heads * queries * share * keys
        sums[3] = present
        return RowTerms(sums, np.empty((self.N_MAXIMA, *pieces.shape)))

    def time_of(self, sums: FloatArray, maxima: FloatArray) -> KernelTime:
        """Time of a kernel over a batch of these `row_terms`, [...]."""
        _, moved, flop, present = (np.asarray(each) for each in sums)
        seconds = np.asarray(self.seconds_of(sums, maxima))
        return KernelTime(
            seconds=seconds,
            # The fastest kernels seen may beat what this curve says of a size.
            compute_s=np.minimum(seconds, flop / self.flop_per_s),
            memory_s=np.minimum(seconds, moved / self.memory_bytes_per_s),
            link_s=np.zeros(seconds.shape),
            launch_s=np.where(present > 0, self.launch_s, 0.0),
        )

    def seconds_of(self, sums: FloatArray, maxima: FloatArray) -> FloatArray:  # noqa: ARG002 (as `AttentionCurve`)
        """The seconds of `time_of` alone."""
        seconds: FloatArray = self.launch_s * (sums[3] > 0) + sums[0]
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
        shape = HeadShape(query_heads, kv_heads, head_dim, kv_element_bytes)
        return shape.outside(self.domain, query_tokens, kv_tokens)
