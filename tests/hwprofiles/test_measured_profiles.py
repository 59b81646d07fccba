"""Profiles that the project measured itself: their raw samples, and what the fits make of them."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles import HardwareProfile
from hwprofiles.fitting.assemble import Measured
from hwprofiles.fitting.device import CPU_ATTENTION, Device
from hwprofiles.fitting.points import SIZES, fitted_rows

MEASURED = sorted(hwprofiles.DATA.glob("*.parquet"))
# Another linear-algebra library may end a fit a hair elsewhere.
REFIT_TOLERANCE = 5e-3


@pytest.fixture(scope="module", params=MEASURED, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    """The raw samples of each measured profile."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def profile(path: Path) -> HardwareProfile:
    """The profile beside them."""
    text = path.with_suffix(".yaml").read_text(encoding="utf-8")
    return TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))


@pytest.fixture(scope="module")
def samples(path: Path) -> pd.DataFrame:
    """The raw samples."""
    return pd.read_parquet(path)


def test_there_is_one() -> None:
    """The project ships a machine that it measured."""
    assert MEASURED


def test_it_says_what_it_was_measured_on(profile: HardwareProfile, path: Path) -> None:
    """Device, software, threads and clocks; the samples by name; who measured, in every source."""
    assert profile.points == path.name
    assert {"device", "torch", "threads", "clocks", "operands go round"} <= set(
        profile.environment or {}
    )
    for _, _, curve in profile.kernels.curves():
        assert curve.source.text.startswith("blockcast profile on ")


def test_held_out_points_are_within_a_tenth(profile: HardwareProfile) -> None:
    """Products and attention, on points that no fit saw: median error at most 10 %.

    Prompts without a prefix may be off by 20 %: torch changes its blocking with their length.
    """
    kernels = profile.kernels
    for curves, most in (
        (kernels.gemm, 0.10),
        (kernels.attention_extend, 0.10),
        (kernels.attention_prefill, 0.20),
    ):
        for curve in curves.values():
            assert curve.residual.median <= most
            assert curve.residual.points >= 5


def test_the_samples_are_raw(samples: pd.DataFrame) -> None:
    """The seconds of a point are the median of the samples that are kept with it."""
    medians = samples["samples_s"].map(np.median)
    assert medians.to_numpy() == pytest.approx(samples["seconds"].to_numpy(), rel=0.05)
    assert (samples["seconds"] > 0).all()


def test_the_grid_is_wide(samples: pd.DataFrame) -> None:
    """Every kernel in both data types, products of 1 to 256 tokens, blocks over long prefixes."""
    counts = samples.groupby(["kernel", "precision"]).size()
    assert set(SIZES) - {"all_reduce"} == set(counts.index.get_level_values("kernel"))
    products = samples[samples["kernel"] == "gemm"]
    assert {1, 2, 4, 8, 16, 32, 64, 128, 256} <= set(products["m"])
    extends = samples[samples["kernel"] == "attention_extend"]
    assert (extends["kv_tokens"] - extends["query_tokens"]).max() >= 8192


def numbers(curve: Any) -> dict[str, Any]:
    """The fields of a curve that a fit makes."""
    return {k: v for k, v in dataclasses.asdict(curve).items() if k != "source"}


def assert_near(shipped: Any, made: Any, where: str) -> None:
    """Two documents agree, their numbers within the tolerance of a refit."""
    if isinstance(shipped, dict):
        assert shipped.keys() == made.keys(), where
        for key in shipped:
            assert_near(shipped[key], made[key], f"{where}.{key}")
    elif isinstance(shipped, list | tuple):
        assert len(shipped) == len(made), where
        for index, pair in enumerate(zip(shipped, made, strict=True)):
            assert_near(*pair, f"{where}.{index}")
    elif isinstance(shipped, float):
        rounding = REFIT_TOLERANCE if "residual" in where else 0.0
        assert made == pytest.approx(shipped, rel=REFIT_TOLERANCE, abs=rounding), where
    else:
        assert shipped == made, where


def test_the_curves_come_from_the_samples(profile: HardwareProfile, samples: pd.DataFrame) -> None:
    """Fitting the raw samples again gives the products, prompts and elementwise kernels shipped."""
    device = Device(
        name=profile.name,
        description=profile.description,
        memory_bytes=profile.memory_bytes,
        last_level_cache_bytes=profile.last_level_cache_bytes,
        multiprocessors=profile.multiprocessors,
        source="a test",
        tabulates=True,
        **CPU_ATTENTION,
    )
    again = Measured(fitted_rows(samples), device)
    kernels = profile.kernels
    for shipped, made in (
        (kernels.gemm, again.dense("gemm")),
        (kernels.attention_prefill, again.prefill()),
    ):
        for precision, curve in shipped.items():
            assert_near(numbers(curve), numbers(made[precision]), precision)
    assert_near(numbers(kernels.elementwise), numbers(again.elementwise()), "elementwise")
