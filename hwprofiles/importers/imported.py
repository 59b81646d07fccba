"""Points that others measured, and the profile that is fitted to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pandas as pd
import yaml
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles.fitting.assemble import fit_profile
from hwprofiles.fitting.device import Device
from hwprofiles.profile import HardwareProfile

ROWS_FROM = "h100-sxm"
"""Shipped profile whose row bandwidth stands in where no row kernel was measured."""


@dataclass(frozen=True)
class Imported:
    """Points in the form of fits (with `framework` and `version`), and what they are of."""

    points: pd.DataFrame
    device: Device
    capacities: str
    """Where memory, cache and multiprocessors are from."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows of data types that no profile has, by table and type."""

    def profile(self) -> HardwareProfile:
        """The profile fitted to the points; raises MeasurementError where a kernel has too few."""
        made = fit_profile(self.points, self.device)
        streams = self.points[self.points["kernel"] == "elementwise"]
        return made if (streams["row_bytes"] > 0).any() else _with_shipped_rows(made)


def _with_shipped_rows(made: HardwareProfile) -> HardwareProfile:
    """*made* with what one thread block streams of its row on the GPU where that was measured."""
    text = (hwprofiles.DATA / f"{ROWS_FROM}.yaml").read_text(encoding="utf-8")
    shipped = TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))
    taken, curve = shipped.kernels.elementwise, made.kernels.elementwise
    told = f"{curve.source.text}; row bandwidth and its residual are those of {ROWS_FROM}"
    elementwise = replace(
        curve,
        row_bytes_per_s=taken.row_bytes_per_s,
        row_residual=taken.row_residual,
        domain=curve.domain | {"row_bytes": taken.domain["row_bytes"]},
        source=replace(curve.source, text=told),
    )
    return replace(made, kernels=replace(made.kernels, elementwise=elementwise))
