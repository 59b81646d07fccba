"""One closed form per kernel family; each turns sizes into a `KernelTime`."""

from hwprofiles.curves.all_reduce import AllReduceCurve
from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve
from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.curves.streaming import StreamingCurve

__all__ = [
    "AllReduceCurve",
    "AttentionCurve",
    "AttentionTableCurve",
    "GemmByRowsCurve",
    "GemmByShapeCurve",
    "GemmCurve",
    "GroupedMoeCurve",
    "StreamingCurve",
]
