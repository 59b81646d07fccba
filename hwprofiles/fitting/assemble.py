"""Fits every curve of a device to its measured points and puts the profile together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.all_reduce import AllReduceCurve
from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve
from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.fitting.all_reduce import tabulate
from hwprofiles.fitting.attention import fit_attention
from hwprofiles.fitting.attention_table import fit_attention_table
from hwprofiles.fitting.choice import best
from hwprofiles.fitting.device import Device
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES, fit_gemm
from hwprofiles.fitting.gemm_by_rows import fit_gemm_by_rows
from hwprofiles.fitting.gemm_by_shape import fit_gemm_by_shape
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column
from hwprofiles.fitting.moe import fit_moe
from hwprofiles.fitting.points import (
    SIZES,
    MeasurementError,
    Points,
    checked,
    seconds,
    unseen,
    with_operation_names,
)
from hwprofiles.fitting.scale import Scale
from hwprofiles.fitting.search import significant, starts
from hwprofiles.fitting.streaming import fit_operations, fit_streaming, with_rows
from hwprofiles.profile import HardwareProfile, Kernels, Peaks
from hwprofiles.provenance import Source

WORST_MEDIAN = 3.0
"""Held-out points off by more than fourfold are no times of such a kernel."""
LEAST_POINTS = 20
"""Of a kernel and data type for a curve to be fitted."""
ELEMENT_BYTES = {"bf16": 2.0, "fp32": 4.0, "fp8": 2.0}
PENDING = Source(kind="fitted", text="pending")

AnyDense = GemmCurve | GemmByRowsCurve | GemmByShapeCurve
DenseCurves = dict[str, AnyDense]
DenseFit = Callable[[Points], AnyDense]
AnyAttention = AttentionCurve | AttentionTableCurve
AttentionFit = Callable[[Points], AnyAttention]


def fit_profile(table: pd.DataFrame, device: Device) -> HardwareProfile:
    """The profile of *device* fitted to *table*: `kernel`, `precision`, SIZES and `seconds`.

    Raises MeasurementError where a time is not a time, or a kernel that every profile has was not
    measured often enough.
    """
    measured = Measured(table, device)
    profile = _profile(measured, device)
    wild = [
        f"{precision} {kernel} ({curve.residual.median:.0%})".strip()
        for kernel, precision, curve in profile.kernels.curves()
        if curve.residual.median > WORST_MEDIAN
    ]
    if wild:
        rule = f"{device.source}: no curve follows these times: {', '.join(wild)} off in the median"
        raise MeasurementError(rule)
    return profile


def _profile(measured: "Measured", device: Device) -> HardwareProfile:
    prompts = measured.prefill()
    return HardwareProfile(
        name=device.name,
        description=device.description,
        memory_bytes=device.memory_bytes,
        last_level_cache_bytes=device.last_level_cache_bytes,
        multiprocessors=device.multiprocessors,
        peaks=device.peaks or measured.peaks,
        kernels=Kernels(
            gemm=measured.dense("gemm"),
            lm_head=measured.dense("lm_head"),
            attention_extend=measured.extend(prompts),
            attention_prefill=prompts,
            moe=measured.experts(),
            elementwise=measured.elementwise(),
            all_reduce=measured.all_reduce(),
        ),
        environment=dict(device.environment) if device.environment else None,
        points=device.points,
    )


@dataclass(frozen=True)
class Measured:
    """All points of a device, and the fit of each of its kernels."""

    table: pd.DataFrame
    device: Device

    def rows(self, kernel: str) -> dict[str, pd.DataFrame]:
        """The checked rows of *kernel* by data type."""
        mine = self.table[self.table["kernel"] == kernel]
        return {
            str(precision): checked(rows, kernel, self.device.source)
            for precision, rows in mine.groupby("precision")
        }

    def points(self, kernel: str) -> Iterator[tuple[str, Points]]:
        """(data type, points) wherever there are enough to fit a curve."""
        for precision, rows in self.rows(kernel).items():
            if len(rows) >= LEAST_POINTS:
                yield precision, Points(rows, self._unseen(rows, kernel))

    def _unseen(self, rows: pd.DataFrame, kernel: str) -> npt.NDArray[np.bool_]:
        return unseen(rows, kernel, one_in=self.device.held_out_in)

    def required(self, kernel: str) -> list[tuple[str, Points]]:
        """As points, of a kernel that every profile has; raises MeasurementError where none are."""
        found = list(self.points(kernel))
        if not found:
            most = max((len(rows) for rows in self.rows(kernel).values()), default=0)
            rule = f"{kernel} has {most} points of one data type; a curve takes {LEAST_POINTS}"
            raise MeasurementError(rule)
        return found

    @cached_property
    def scale(self) -> Scale:
        """The most that was seen, for fits to start from."""
        streams = pd.concat([points.table for _, points in self.required("elementwise")])
        return Scale(
            memory_bytes_per_s=float((streams["bytes_moved"] / streams["seconds"]).max()),
            flop_per_s=max(self.flop_rates.values()),
            launch_s=float(streams["seconds"].min()),
            most_bytes_per_s=self.device.peaks.memory_bytes_per_s if self.device.peaks else None,
        )

    @cached_property
    def flop_rates(self) -> dict[str, float]:
        """The fastest product of each data type."""
        return {
            precision: float((2.0 * _volume(points.table) / seconds(points.table)).max())
            for precision, points in self.required("gemm")
        }

    @property
    def peaks(self) -> Peaks:
        """What was measured at most, where no data sheet says what could be."""
        rates = {
            name: significant(max(rate, self._head_rates.get(name, 0.0)))
            for name, rate in self.flop_rates.items()
        }
        return Peaks(
            bf16_flop_per_s=rates.get("bf16", max(rates.values())),
            fp32_flop_per_s=rates.get("fp32"),
            fp8_flop_per_s=rates.get("fp8"),
            memory_bytes_per_s=significant(self._fastest_bytes_per_s),
            source=Source(kind="measured", text=f"the fastest points; {self.device.source}"),
        )

    @property
    def _head_rates(self) -> dict[str, float]:
        """The fastest LM head of each data type: wide products may beat those of a layer."""
        return {
            precision: float((2.0 * _volume(rows) / seconds(rows)).max())
            for precision, rows in self.rows("lm_head").items()
        }

    @property
    def _fastest_bytes_per_s(self) -> float:
        """Of streams, and of products that read their weights: reading alone may be faster."""
        reads = [
            column(points.table, "n") * column(points.table, "k") * WEIGHT_ELEMENT_BYTES[precision]
            for precision, points in self.required("gemm")
        ]
        times = [seconds(points.table) for _, points in self.required("gemm")]
        fastest = max(float((b / t).max()) for b, t in zip(reads, times, strict=True))
        return max(fastest, self.scale.memory_bytes_per_s)

    def source(self, kernel: str, points: Points, how: str = "") -> Source:
        """Who measured, how many points were fitted, and how the form was chosen."""
        count = f"{len(points.seen)} points fitted, one in {self.device.held_out_in} held out"
        parts = [self.device.source, count, how, self.device.notes.get(kernel, "")]
        return Source(kind="fitted", text="; ".join(part for part in parts if part))

    def dense(self, kernel: str) -> DenseCurves:
        """Products of every data type: the closed form, or the table by rows if that errs less."""
        made: DenseCurves = {}
        for precision, points in self.required(kernel):
            curve, how = best(self._dense_forms(precision), points, list(SIZES[kernel]))
            made[precision] = replace(curve, source=self.source(kernel, points, how))
        return made

    def _dense_forms(self, weights: str) -> dict[str, DenseFit]:
        scale = self.scale

        def closed(points: Points) -> GemmCurve:
            return fit_gemm(points, weights=weights, search=scale.gemm, source=PENDING)

        def by_rows(points: Points) -> GemmByRowsCurve:
            return fit_gemm_by_rows(points, weights=weights, launch=scale.launch, source=PENDING)

        def by_shape(points: Points) -> GemmByShapeCurve:
            return fit_gemm_by_shape(points, weights=weights, source=PENDING)

        if self.device.one_model:
            return {"table by shape": by_shape}
        tables: dict[str, DenseFit] = {"table by rows": by_rows} if self.device.tabulates else {}
        return {"closed form": closed, **tables}

    def prefill(self) -> dict[str, AnyAttention]:
        """Whole prompts, of every data type."""
        made = {}
        for precision, points in self.required("attention_prefill"):
            forms = {
                f"tiles of {tile}": self._attention(precision, tile, tile, is_causal=True)
                for tile in self.device.tile_rows
            }
            forms |= self._attention_table(precision, is_causal=True)
            curve, how = best(forms, points, list(SIZES["attention_prefill"]))
            source = self.source("attention_prefill", points, how)
            made[precision] = replace(curve, source=source)
        return made

    def extend(self, prompts: Mapping[str, AnyAttention]) -> dict[str, AnyAttention]:
        """Queries over a prefix, of every data type; at the rate of *prompts* if few fill tiles."""
        made = {}
        for precision, points in self.required("attention_extend"):
            rate = prompts[precision].flop_per_s if self._takes_rate(precision, prompts) else None
            forms = {
                f"tiles of {tile} by {granule}": self._attention(
                    precision, tile, granule, flop_per_s=rate
                )
                for tile in self.device.tile_rows
                for granule in self.device.row_granules
                if granule <= tile
            }
            forms |= self._attention_table(precision, is_causal=False)
            curve, how = best(forms, points, list(SIZES["attention_extend"]))
            made[precision] = replace(curve, source=self.source("attention_extend", points, how))
        return made

    def _attention_table(self, precision: str, *, is_causal: bool) -> dict[str, AttentionFit]:
        """The table, where this device tries tables."""
        if not self.device.tabulates:
            return {}

        scale = self.scale
        search = scale.attention_sequences if self.device.one_model else scale.attention_rows

        def tabulated(points: Points) -> AttentionTableCurve:
            return fit_attention_table(
                points,
                by="keys" if is_causal else "rows",
                element_bytes=ELEMENT_BYTES[precision],
                search=search,
                source=PENDING,
            )

        return {f"table by {'keys' if is_causal else 'rows'}": tabulated}

    def _takes_rate(self, precision: str, prompts: Mapping[str, AnyAttention]) -> bool:
        return self.device.few_full_tiles and precision in prompts

    def _attention(
        self,
        precision: str,
        tile_rows: int,
        row_granule: int,
        *,
        is_causal: bool = False,
        flop_per_s: float | None = None,
    ) -> AttentionFit:
        scale = self.scale
        search = scale.prefill if is_causal else scale.extend
        fixed = {"split_s": 0.0, "split_kv_tokens": 1.0} if is_causal else {}
        if flop_per_s is not None:
            search, fixed = scale.extend_at_known_rate, {"flop_per_s": flop_per_s}
        template = AttentionCurve(
            form="attention",
            causal=is_causal,
            tile_rows=tile_rows,
            row_granule=row_granule,
            multiprocessors=self.device.multiprocessors,
            key_splits=1 if is_causal else self.device.key_splits,
            **starts(search),
            **fixed,
            residual=NOT_YET_JUDGED,
            domain={},
            source=PENDING,
        )
        element = ELEMENT_BYTES[precision]
        return lambda points: fit_attention(template, points, search=search, element_bytes=element)

    def experts(self) -> dict[str, GroupedMoeCurve]:
        """Mixture-of-experts modules, of every data type that was measured."""
        return {
            precision: fit_moe(
                points,
                weights=precision,
                search=self.scale.moe,
                source=self.source("moe", points),
            )
            for precision, points in self.points("moe")
        }

    def elementwise(self) -> StreamingCurve:
        """Streams first, then what a row costs that one block handles alone."""
        rows = pd.concat([points.table for _, points in self.required("elementwise")])
        if "operation" in rows:
            return fit_operations(
                with_operation_names(rows),
                self._unseen(rows, "elementwise"),
                self.scale,
                self.source("elementwise", Points(rows, self._unseen(rows, "elementwise"))),
                tabulates=self.device.one_model,
            )
        by_row = rows["row_bytes"].to_numpy() > 0
        streams, row_kernels = rows[~by_row], rows[by_row]
        scale = self.scale
        points = Points(streams, self._unseen(streams, "elementwise"))
        curve = fit_streaming(
            points,
            search=scale.streaming,
            row_bytes_per_s=scale.rows["row_bytes_per_s"].start,
            source=self.source("elementwise", points),
        )
        if len(row_kernels) < LEAST_POINTS:
            return curve
        row_points = Points(row_kernels, self._unseen(row_kernels, "elementwise"))
        return with_rows(curve, row_points, search=scale.rows)

    def all_reduce(self) -> AllReduceCurve | None:
        """A table, where several devices were measured together."""
        found = self.rows("all_reduce")
        if not found:
            return None
        note = self.device.notes.get("all_reduce", "")
        parts = [self.device.source, note, "residuals leave out one size at a time"]
        text = "; ".join(part for part in parts if part)
        return tabulate(pd.concat(found.values()), Source(kind="measured", text=text))


def _volume(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    return column(rows, "m") * column(rows, "n") * column(rows, "k")
