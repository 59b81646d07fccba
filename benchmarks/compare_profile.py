"""How far curves are from points that were measured: a profile's own, and another profile's.

`python benchmarks/compare_profile.py PROFILE.yaml [OTHER]`: the raw samples beside PROFILE are
priced by both. OTHER is a shipped name or a file; where it is left out, the shipped profile whose
GPU the samples name.
"""

import sys
from pathlib import Path

import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.derive.datasheet import sheets_of
from hwprofiles.fitting import attention, gemm, moe, streaming
from hwprofiles.fitting.points import fitted_rows, with_operation_names
from simulator.library import HARDWARE
from simulator.model import ELEMENT_BYTES


def ratios(profile: HardwareProfile, kernel: str, precision: str, rows: pd.DataFrame) -> pd.Series:
    """Predicted over measured seconds of each row; empty where the profile has no such curve."""
    curves = getattr(profile.kernels, kernel)
    curve = curves.get(precision) if isinstance(curves, dict) else curves
    if curve is None:
        return pd.Series(dtype=float)
    if kernel in {"gemm", "lm_head"}:
        found = gemm.predicted_s(curve, rows)
    elif kernel.startswith("attention"):
        found = attention.predicted_s(curve, rows, ELEMENT_BYTES[precision])
    elif kernel == "moe":
        found = moe.predicted_s(curve, rows)
    else:
        found = streaming.predicted_s(curve, with_operation_names(rows))
    return pd.Series(found / rows["seconds"].to_numpy(float))


def main(path: str, others: list[str]) -> None:
    """Print a line per kernel and profile."""
    own = HARDWARE.get(path)
    samples = fitted_rows(pd.read_parquet(Path(path).with_name(own.points or "")))
    same_gpu = sheets_of((own.environment or {}).get("device", ""))
    profiles = [own, *(HARDWARE.get(name) for name in others or same_gpu)]
    print(f"{'curve':28}{'profile':24}{'points':>7}{'median ratio':>14}{'median error':>14}")
    for (kernel, precision), rows in samples.groupby(["kernel", "precision"]):
        for profile in profiles:
            found = ratios(profile, str(kernel), str(precision), rows)
            if len(found):
                error = (found - 1).abs().median()
                print(
                    f"{f'{precision} {kernel}':28}{profile.name:24}{len(found):7}"
                    f"{found.median():14.3f}{error:14.1%}"
                )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
