"""A hardware profile: what one GPU can do at most, and how long its kernels take."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from hwprofiles.curves.all_reduce import AllReduceCurve
from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Positive, Text

__all__ = ["HardwareProfile", "Kernels", "Peaks", "Residual", "Source"]


@dataclass(frozen=True)
class Peaks:
    """What the data sheet promises: dense arithmetic, memory, and link bandwidth one way."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    bf16_flop_per_s: Positive
    fp8_flop_per_s: Positive
    memory_bytes_per_s: Positive
    link_bytes_per_s: Positive
    source: Source


@dataclass(frozen=True)
class Kernels:
    """One curve per kernel family; the dictionaries are keyed by the type of the weights."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    gemm: dict[Text, GemmCurve]
    lm_head: dict[Text, GemmCurve]
    attention_extend: AttentionCurve
    attention_prefill: AttentionCurve
    moe: dict[Text, GroupedMoeCurve]
    elementwise: StreamingCurve
    all_reduce: AllReduceCurve | None


@dataclass(frozen=True)
class HardwareProfile:
    """One GPU: capacities in bytes, multiprocessors, data-sheet peaks and measured kernels."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Text
    description: Text
    memory_bytes: Positive
    l2_bytes: Positive
    multiprocessors: Count
    peaks: Peaks
    kernels: Kernels
