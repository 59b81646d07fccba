"""Whole passes: of the shape that a model file says, and timed beside the kernels."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from hwprofiles.kernel_shapes import KernelShapes
from kernels_ref.passes import RandomDecoder
from kernels_ref.profiling.clock import Clock
from kernels_ref.profiling.measure import VISITS, Request, request
from kernels_ref.profiling.passes import measure_passes, pass_calls, pass_points, pass_shape
from kernels_ref.profiling.point import Point
from simulator.library import MODELS

ROOT = Path(__file__).parents[2]
SMALL = str(ROOT / "examples/models/small-decoder.yaml")
CPU = torch.device("cpu")
# What makes a model large and says nothing about how it is built.
SHRUNK = {"hidden": 16, "vocab": 32, "ffn": 8, "head_dim": 8, "window_tokens": 4}


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    """Measuring fixes the number of threads of the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def plain(name: str) -> dict[str, Any]:
    """A model as plain values."""
    return dataclasses.asdict(MODELS.get(name))


def shrunk(value: Any, name: str = "") -> Any:
    """The same model with small widths and a layer of each kind."""
    if isinstance(value, dict):
        small = {key: shrunk(item, key) for key, item in value.items()}
        return small | {"count": 1} if "attention" in value else small
    if isinstance(value, list | tuple):
        return [shrunk(item, name) for item in value]
    return SHRUNK[name] if name in SHRUNK and value is not None else value


@pytest.mark.parametrize("model", MODELS.names())
def test_a_shape_is_the_layer_groups_of_its_model(model: str) -> None:
    """Counts, heads, widths, windows and experts, as the model's own fields have them."""
    spec, shape = MODELS.get(model), pass_shape(plain(model))
    assert (shape.hidden, shape.vocab) == (spec.hidden, spec.vocab)
    assert len(shape.layers) == len(spec.layers)
    for layer, group in zip(shape.layers, spec.layers, strict=True):
        attention = group.attention
        assert (layer.count, layer.ffn) == (group.count, group.ffn)
        assert (layer.query_heads, layer.kv_heads, layer.head_dim) == (
            attention.query_heads,
            attention.kv_heads,
            attention.head_dim,
        )
        assert layer.window_tokens == attention.window_tokens
        assert layer.qk_norm == attention.qk_norm
        assert layer.shared_key_value == attention.shared_key_value
        assert (layer.experts is None) == (group.experts is None)
        if layer.experts and group.experts:
            experts = group.experts
            assert (layer.experts.count, layer.experts.ffn) == (experts.count, experts.ffn)
            assert (layer.experts.shared, layer.experts.router.top_k) == (
                experts.shared,
                experts.top_k,
            )


@pytest.mark.parametrize("model", MODELS.names())
def test_a_pass_of_every_kind_of_model_runs(model: str) -> None:
    """Two rows of three queries on five tokens: finite logits for all six, twice the same."""
    shape = pass_shape(shrunk(plain(model)))
    decoder = RandomDecoder(shape, dtype=torch.float32)
    sizes = {"sequences": 2, "query_tokens": 3, "prefix_tokens": 5}
    point = Point("pass", "fp32", sizes, 0, 0.0, 0.0)
    (call,) = pass_calls(decoder, CPU, point)
    first, second = (_output(call) for _ in range(2))
    assert first.shape == (6, shape.vocab)
    assert bool(first.isfinite().all())
    assert torch.equal(first, second)


def _output(call: Callable[[], Any]) -> torch.Tensor:
    logits = call().logits
    assert isinstance(logits, torch.Tensor)
    return logits


def test_passes_fit_in_what_the_cache_may_take() -> None:
    """No batch has more tokens cached than allowed, and the corners come first."""
    points = pass_points("a", "bf16", most_tokens=20_000)
    batches = [tuple(p.sizes.values()) for p in points]
    assert len(set(batches)) == len(batches)
    assert all(rows * (queries + prefix) <= 20_000 for rows, queries, prefix in batches)
    assert (16, 128, 1024) in batches
    assert (16, 1, 8192) not in batches
    assert [p.level for p in points] == sorted(p.level for p in points)
    assert batches[0] in {
        (r, q, p) for r in (1, 16) for q in (1, 16, 32, 128) for p in (1024, 8192)
    }
    assert pass_points("a", "bf16", most_tokens=100) == []


def asked(folder: Path, *precisions: str, budget_s: float = 0.3) -> Request:
    """A request for the passes of a small decoder."""
    return request(
        "cpu",
        "here",
        folder,
        KernelShapes(),
        budget_s=budget_s,
        precisions=precisions,
        threads=1,
        memory_bytes=40e6,
        working_set_bytes=1e5,
    )


@pytest.mark.parametrize(
    ("precisions", "taken"),
    [(("fp32", "bf16"), "fp32"), (("fp8", "fp32"), "fp32"), (("fp8",), "bf16")],
)
def test_measured_passes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precisions: tuple[str, ...],
    taken: str,
) -> None:
    """Times above zero in the first wide data type, kept beside the profile, and gone on with."""
    monkeypatch.setattr(Clock, "__init__", _hasty(Clock.__init__))
    monkeypatch.setitem(VISITS, "cpu", 1)
    told: list[str] = []
    samples = measure_passes(
        asked(tmp_path, *precisions),
        "small",
        plain(SMALL),
        lambda _share, what: told.append(what),
    )
    assert (tmp_path / "here-passes.parquet").exists()
    assert len(samples.rows) == len(told) >= 1
    for row in samples.rows.values():
        assert (row["kernel"], row["operation"], row["precision"]) == ("pass", "small", taken)
        assert row["seconds"] > 0
    before = dict(samples.rows)
    after = measure_passes(
        asked(tmp_path, *precisions), "small", plain(SMALL), lambda _share, _what: None
    )
    assert {key: after.rows[key]["seconds"] for key in before} == {
        key: row["seconds"] for key, row in before.items()
    }


def _hasty(build: Callable[..., None]) -> Callable[..., None]:
    """A clock that repeats for a millisecond only."""

    def made(self: Clock, device: torch.device, threads: int, **_repeats: float) -> None:
        build(self, device, threads, least_s=1e-3, most_s=2e-3)

    return made
