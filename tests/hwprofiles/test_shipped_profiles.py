"""The shipped documents against their schema, the data sheets and the package's boundaries."""

import ast
import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

import hwprofiles
from hwprofiles import HardwareProfile
from hwprofiles.curves import AttentionCurve

PACKAGE = Path(hwprofiles.__file__).parent
DOCUMENTS = sorted(hwprofiles.DATA.glob("*.yaml"))


def raw(path: Path) -> Any:
    """The document as YAML has it."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every dotted path of a document with the number or text it leads to."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    else:
        return [(path, value)]
    return [leaf for key, item in pairs for leaf in leaves(item, f"{path}.{key}")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_document_is_a_profile_of_its_own_name(path: Path) -> None:
    """Every field is known and in its range, and the file is named after the profile."""
    profile = TypeAdapter(HardwareProfile).validate_python(raw(path))
    assert profile.name == path.stem


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_yaml_reads_every_number_as_a_number(path: Path) -> None:
    """YAML 1.1 takes 4.8e12 for text; only names and descriptions are text."""
    words = {"name", "description", "kind", "text", "form", "by", "points"}
    for dotted, value in leaves(raw(path)):
        is_count = "residual" in dotted
        named = dotted.rsplit(".", 1)[-1] in words and not is_count
        assert isinstance(value, str) == (named or dotted.startswith(".environment.")), dotted


def test_capacities_are_the_data_sheets(profile: HardwareProfile) -> None:
    """H100 SXM: 80 GB at 3.35 TB/s; H200 SXM: 141 GB at 4.8 TB/s; one chip otherwise.

    HGX B200: 180 GiB at 7.7 TB/s, 2.25 PFLOP/s dense in bf16, NVLink 1.8 TB/s both ways.
    """
    hopper, hopper_peaks = (132, 50e6), (989e12, 1979e12, 450e9)
    (bytes_, rate), chip, flop_and_link = {
        "b200-sxm": ((180 * 2**30, 7.7e12), (148, 126e6), (2.25e15, 4.5e15, 900e9)),
        "h100-sxm": ((80e9, 3.35e12), hopper, hopper_peaks),
        "h200-sxm": ((141e9, 4.8e12), hopper, hopper_peaks),
    }[profile.name]
    peaks = profile.peaks
    assert (profile.memory_bytes, peaks.memory_bytes_per_s) == (bytes_, rate)
    assert (profile.multiprocessors, profile.last_level_cache_bytes) == chip
    assert (peaks.bf16_flop_per_s, peaks.fp8_flop_per_s, peaks.link_bytes_per_s) == flop_and_link


def test_no_fitted_rate_beats_the_data_sheet(profile: HardwareProfile) -> None:
    """A fit that exceeds a peak has fitted something else."""
    kernels, peaks = profile.kernels, profile.peaks
    for weights in ("bf16", "fp8"):
        for curve in (kernels.gemm[weights], kernels.moe[weights]):
            assert curve.flop_per_s < peaks.flop_per_s(weights)
            assert curve.memory_bytes_per_s < peaks.memory_bytes_per_s
    for attention in (kernels.attention_extend["bf16"], kernels.attention_prefill["bf16"]):
        assert attention.flop_per_s < peaks.bf16_flop_per_s
        assert attention.memory_bytes_per_s < peaks.memory_bytes_per_s
        assert isinstance(attention, AttentionCurve)
        assert attention.multiprocessors == profile.multiprocessors


def test_every_curve_says_what_it_was_judged_on(profile: HardwareProfile) -> None:
    """Held-out points, their errors in order, a range for each size, and a source."""
    kernels = profile.kernels
    curves: list[Any] = [*kernels.gemm.values(), *kernels.lm_head.values(), *kernels.moe.values()]
    single: list[Any] = [
        *kernels.attention_extend.values(),
        *kernels.attention_prefill.values(),
        kernels.elementwise,
    ]
    for curve in [*curves, *single, kernels.all_reduce]:
        assert curve is not None
        assert curve.residual.points >= 20
        assert 0 < curve.residual.median <= curve.residual.p90
        assert curve.domain
        assert ".csv" in curve.source.text or "aiconfigurator-core" in curve.source.text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["memory_bytes"], -1.0),
        (["memory_bytes"], float("nan")),
        (["memory_bytes"], "8.0e+10"),
        (["memory"], 8.0e10),
        (["kernels", "gemm", "bf16", "form"], "attention"),
        (["kernels", "gemm", "bf16", "launch_power"], 0.5),
        (["kernels", "elementwise", "domain", "bytes_moved"], [2.0, 1.0]),
        (["kernels", "all_reduce", "by_ranks", 2, "seconds"], [1.0]),
        (["peaks", "source", "kind"], "guessed"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused(path: list[str | int], value: object) -> None:
    """Out of range, not finite, text for a number, misspelt, or of another form."""
    document = raw(DOCUMENTS[0])
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        TypeAdapter(HardwareProfile).validate_python(document)


def test_profiles_are_frozen(profile: HardwareProfile) -> None:
    """A profile cannot change under a simulation."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.name = "other"  # type: ignore[misc]


def imports(path: Path) -> set[str]:
    """The top-level names a module imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {a.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
    return plain | {
        n.module.split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and n.module
    }


def test_the_package_is_a_leaf() -> None:
    """At run time it needs NumPy and pydantic; only the refitting needs more."""
    runtime = {"hwprofiles", "numpy", "pydantic"} | sys.stdlib_module_names
    refitting = runtime | {"click", "pandas", "pyarrow", "scipy", "yaml", "_typeshed"}
    for path in PACKAGE.rglob("*.py"):
        allowed = refitting if path.parent.name in {"derive", "fitting", "importers"} else runtime
        assert imports(path) <= allowed, path
