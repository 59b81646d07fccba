"""The B200: NVIDIA's tables through the project's own import, as shipped."""

import dataclasses

import pytest
from pydantic import TypeAdapter

from hwprofiles import DATA, HardwareProfile
from hwprofiles.fitting.assemble import Measured
from hwprofiles.importers.aiconfigurator import read
from hwprofiles.importers.known_gpus import CHIPS
from hwprofiles.importers.package import NotInstalledError, installed
from simulator.documents import read_mapping

SYSTEM = "b200_sxm"
MADE_WITH = "aiconfigurator-core 0.12.0"
# Another linear-algebra library may end a fit a hair elsewhere.
REFIT_TOLERANCE = 5e-3


@pytest.fixture(scope="module")
def shipped() -> HardwareProfile:
    """The profile in the package."""
    return profile("b200-sxm")


def profile(name: str) -> HardwareProfile:
    """A shipped profile."""
    return TypeAdapter(HardwareProfile).validate_python(read_mapping(DATA / f"{name}.yaml"))


def test_every_curve_names_the_package(shipped: HardwareProfile) -> None:
    """Who measured, with which version of whose tables, stands in each source; peaks too."""
    for kernel, _, curve in shipped.kernels.curves():
        # A table of messages is no fit.
        assert curve.source.kind == ("measured" if kernel == "all_reduce" else "fitted")
        assert MADE_WITH in curve.source.text
    assert MADE_WITH in shipped.peaks.source.text


def test_the_rows_that_no_table_has_are_the_hopper_ones(shipped: HardwareProfile) -> None:
    """Nobody timed one thread block on a B200: its bandwidth is taken from the H100's profile."""
    hopper = profile("h100-sxm").kernels.elementwise
    assert shipped.kernels.elementwise.row_bytes_per_s == hopper.row_bytes_per_s


def test_its_memory_streams_faster_than_an_h200(shipped: HardwareProfile) -> None:
    """7.7 TB/s against 4.8: the fitted rate of weights is 1.4 to 1.8 times the H200's."""
    ratio = (
        shipped.kernels.gemm["bf16"].memory_bytes_per_s
        / profile("h200-sxm").kernels.gemm["bf16"].memory_bytes_per_s
    )
    assert 1.4 < ratio < 1.8


def test_the_import_gives_it_again(shipped: HardwareProfile) -> None:
    """Where the package is installed, the same tables give the shipped products."""
    try:
        package = installed()
    except NotInstalledError:
        pytest.skip("aiconfigurator-core is not installed")
    if package.version not in MADE_WITH:
        pytest.skip(f"the profile is of {MADE_WITH}, here is {package.version}")
    imported = read(package.system(SYSTEM), CHIPS[SYSTEM], name=shipped.name, points="none")
    again = Measured(imported.points, imported.device).dense("gemm")
    for precision, curve in shipped.kernels.gemm.items():
        ours, theirs = _numbers(curve), _numbers(again[precision])
        assert theirs == pytest.approx(ours, rel=REFIT_TOLERANCE)


def _numbers(curve: object) -> dict[str, float]:
    """The parameters of a curve."""
    fields = dataclasses.asdict(curve)  # type: ignore[call-overload]
    return {name: value for name, value in fields.items() if isinstance(value, float)}
