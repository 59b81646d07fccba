"""A hardware profile: what one device can do at most, and how long its kernels take."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from hwprofiles.curves.all_reduce import AllReduceCurve
from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve
from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import Count, Positive, Text
from hwprofiles.rising import SWEEPS, falls

__all__ = ["HardwareProfile", "Kernels", "Peaks", "Residual", "Source"]


AnyAttentionCurve = Annotated[AttentionCurve | AttentionTableCurve, Field(discriminator="form")]
DenseCurve = Annotated[GemmCurve | GemmByRowsCurve | GemmByShapeCurve, Field(discriminator="form")]
"""Closed forms or tables, by their `form`."""


_PRODUCT = ("m", "n", "k")
_ATTENTION = ("rows_per_kv_head", "kv_tokens", "kv_bytes", "sequences", "head_dim")
DOMAINS = {
    "gemm": _PRODUCT,
    "lm_head": _PRODUCT,
    "attention_extend": _ATTENTION,
    "attention_prefill": _ATTENTION,
    "moe": ("tokens", "active_experts", "hidden", "expert_ffn", "top_k", "experts"),
    "elementwise": ("bytes_moved", "row_bytes"),
    "all_reduce": ("message_bytes", "ranks"),
}
"""The sizes of each kernel whose fitted range a curve gives."""


@dataclass(frozen=True)
class Peaks:
    """Most that the device does: dense arithmetic, memory, and link bandwidth one way.

    From the data sheet, or, where there is none, the most that was measured.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    bf16_flop_per_s: Positive
    memory_bytes_per_s: Positive
    source: Source
    fp32_flop_per_s: Positive | None = None
    fp8_flop_per_s: Positive | None = None
    link_bytes_per_s: Positive | None = None

    def flop_per_s(self, precision: str) -> float:
        """The arithmetic rate of *precision*; that of bf16 where none is known for it."""
        rate: float | None = getattr(self, f"{precision}_flop_per_s", None)
        return self.bf16_flop_per_s if rate is None else rate


@dataclass(frozen=True)
class Kernels:
    """One curve per kernel family; the dictionaries are keyed by the type of what is multiplied."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    gemm: dict[Text, DenseCurve]
    lm_head: dict[Text, DenseCurve]
    attention_extend: dict[Text, AnyAttentionCurve]
    attention_prefill: dict[Text, AnyAttentionCurve]
    moe: dict[Text, GroupedMoeCurve]
    elementwise: StreamingCurve
    all_reduce: AllReduceCurve | None = None

    def curves(self) -> Iterator[tuple[str, str, Any]]:
        """(kernel, data type or nothing, curve) of every curve there is."""
        for kernel in (field.name for field in fields(self)):
            value = getattr(self, kernel)
            if isinstance(value, dict):
                yield from ((kernel, name, curve) for name, curve in value.items())
            elif value is not None:
                yield kernel, "", value


@dataclass(frozen=True)
class HardwareProfile:
    """One device: capacities in bytes, multiprocessors, data-sheet peaks and measured kernels."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Text
    description: Text
    memory_bytes: Positive
    last_level_cache_bytes: Positive
    multiprocessors: Count
    peaks: Peaks
    kernels: Kernels
    environment: dict[Text, Text] | None = None
    """What a measurement of our own ran on: device, driver, software, clocks, threads."""
    points: Text | None = None
    """File beside the profile with the points that its curves were fitted to and judged on."""

    def __post_init__(self) -> None:
        """Raise ValueError where a curve falls as work rises, naming the points.

        Also where a curve does not say on which sizes it was fitted, or the points do not lie
        beside the profile.
        """
        if self.points is not None and PurePath(self.points).name != self.points:
            rule = f"points is the name of a file beside the profile, got {self.points!r}"
            raise ValueError(rule)
        found = [
            f"{kernel} {name}: {fall}" if name else f"{kernel}: {fall}"
            for kernel, name, curve in self.kernels.curves()
            if kernel in SWEEPS
            for fall in falls(kernel, curve)
        ]
        if found:
            rule = f"more work never takes less time; {'; '.join(found)}"
            raise ValueError(rule)
        for kernel, name, curve in self.kernels.curves():
            missing = sorted(set(DOMAINS[kernel]) - set(curve.domain))
            if missing:
                where = f"{kernel} {name}".strip()
                rule = f"domain of {where} lacks the range of {', '.join(missing)}"
                raise ValueError(rule)
