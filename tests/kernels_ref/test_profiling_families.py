"""What is timed computes what the reference kernels compute, cold copy after cold copy."""

import inspect
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from hwprofiles.kernel_shapes import ExpertsShape, KernelShapes
from kernels_ref.kernels.attention import naive_attention
from kernels_ref.kernels.linear import fp8_available, naive_linear
from kernels_ref.kernels.lm_head import naive_confidence, naive_lm_head
from kernels_ref.kernels.moe import Router, naive_grouped_experts, route
from kernels_ref.kernels.rms_norm import naive_add_rms_norm
from kernels_ref.kernels.rotary import naive_rotary
from kernels_ref.kernels.swiglu import naive_swiglu
from kernels_ref.kernels.visibility import causal, whole
from kernels_ref.profiling.clock import Call
from kernels_ref.profiling.families import families
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.pool import Pool
from kernels_ref.profiling.served import Served
from kernels_ref.profiling.session import grid

CPU = torch.device("cpu")
SHAPES = KernelShapes(
    linears=frozenset({(16, 32)}),
    heads=frozenset({(4, 2, 8), (2, 2, 8)}),
    experts=frozenset({ExpertsShape(hidden=8, ffn=4, top_k=2, count=6)}),
    vocabularies=frozenset({(32, 8)}),
    widths=frozenset({6, 128}),
)
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2}


@cache
def all_points() -> tuple[Point, ...]:
    """The grid of tiny shapes, on every backend of a CPU."""
    served = replace(
        Served.of(SHAPES), precisions=("fp32", "bf16", "fp8"), attention_backends=("sdpa", "flex")
    )
    return tuple(grid(served))


def few(kernel: str, count: int = 2) -> list[Any]:
    """For each data type, operation and backend of *kernel* the points with the least work."""
    kinds: dict[tuple[str, ...], list[Point]] = {}
    for point in all_points():
        if point.kernel == kernel:
            name = (str(point.precision), point.operation, point.backend)
            kinds.setdefault(name, []).append(point)
    found = []
    for kind in sorted(kinds):
        ordered = sorted(kinds[kind], key=lambda point: (point.flop + point.bytes, point.key))
        # The very least are all of one token.
        found += [pytest.param(p, id=p.key) for p in ordered[: 20 * count : 20]]
    return found


def made(point: Point, working_set_bytes: float = 20_000) -> tuple[Any, ...]:
    """The calls of a point."""
    pool = Pool(CPU, working_set_bytes=working_set_bytes, most_bytes=1e9)
    family = next(f for f in families().values() if point.kernel in f.KERNELS)
    calls = family.calls(point, pool)
    assert len(calls) >= 1
    return tuple(calls)


def held(call: Call) -> dict[str, Any]:
    """The operands that a call closes over."""
    function: Any = call.func if isinstance(call, partial) else call
    return dict(inspect.getclosurevars(function).nonlocals) if inspect.isfunction(function) else {}


def close(found: torch.Tensor, expected: torch.Tensor, precision: str) -> bool:
    """Whether they agree to the rounding of *precision*, for their size."""
    scale = float(expected.abs().max()) or 1.0
    return bool(((found.double() - expected.double()).abs() <= TOLERANCE[precision] * scale).all())


@pytest.mark.parametrize("point", [p for p in few("gemm") if p.values[0].precision != "fp8"])
def test_products(point: Point) -> None:
    """Each call is x W^T with its own W of the point's shape."""
    calls = made(point)
    sizes = {name: int(size) for name, size in point.sizes.items()}
    for call in (calls[0], calls[-1]):
        x, weight = call.args
        assert (tuple(x.shape), tuple(weight.shape)) == (
            (sizes["m"], sizes["k"]),
            (sizes["n"], sizes["k"]),
        )
        assert close(call(), naive_linear(x, weight), point.precision)
    assert calls[0].args[1].data_ptr() != calls[-1].args[1].data_ptr()


@pytest.mark.skipif(not fp8_available(CPU), reason="no fp8 products here")
@pytest.mark.parametrize("point", [p for p in few("gemm") if p.values[0].precision == "fp8"])
def test_products_in_fp8(point: Point) -> None:
    """The weights are fp8, the product is near that of what they were quantised from."""
    x, weight = made(point)[0].args
    exact = naive_linear(x, weight.values.float() * weight.scale.float())
    error = (made(point)[0]().double() - exact).abs().max()
    assert weight.values.dtype == torch.float8_e4m3fn
    assert float(error) <= 0.1 * float(exact.abs().max())


@pytest.mark.parametrize("point", few("lm_head"))
def test_lm_heads(point: Point) -> None:
    """Logits of every entry."""
    for call in made(point)[:2]:
        assert close(call(), naive_lm_head(*call.args), point.precision)


@pytest.mark.parametrize("kernel", ["attention_extend", "attention_prefill"])
def test_attention_is_timed_on_every_backend_and_mask(kernel: str) -> None:
    """What the next tests go through is not empty: both types, both backends, masked or not."""
    found = {(p.precision, p.operation, p.backend) for p in all_points() if p.kernel == kernel}
    operations = ["whole", "causal"] if kernel == "attention_extend" else ["causal"]
    assert found == {
        (precision, operation, backend)
        for precision in ("fp32", "bf16")
        for operation in operations
        for backend in ("sdpa", "flex")
    }


def small_attention() -> list[Any]:
    """Of both kernels the points with few enough pairs for a loop."""
    found = []
    for kernel in ("attention_extend", "attention_prefill"):
        for parameter in few(kernel, count=1):
            point = parameter.values[0]
            sizes = point.sizes
            pairs = sizes["sequences"] * sizes["query_tokens"] * sizes["query_heads"]
            if pairs <= 300:
                found.append(parameter)
            else:
                # A masked one is of 16 queries over a thousand tokens at least: fewer tokens.
                fewer = {"sequences": 1, "query_tokens": 5, "kv_tokens": 12}
                smaller = replace(point, sizes={**sizes, **fewer})
                found.append(pytest.param(smaller, id=parameter.id))
    return found


@pytest.mark.parametrize("point", small_attention())
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_attention(point: Point) -> None:
    """Queries see the prefix and their own keys, which each call puts into its cache itself."""
    calls = made(point)
    for call in {0: calls[0], 1: calls[-1]}.values():
        found, operands, (cache_,) = call(), held(call), call.args
        prefixes, queries = operands["prefixes"], operands["queries"]
        kind = causal if point.operation == "causal" else whole
        expected = naive_attention(operands["asked"], cache_[0], cache_[1], kind(prefixes, queries))
        assert close(found, expected, point.precision)
        query = int(point.sizes["query_tokens"])
        assert torch.equal(cache_[:, :, -query:], operands["own"])
        assert cache_.shape[2] == point.sizes["kv_tokens"]


@pytest.mark.parametrize("point", few("moe"))
def test_experts(point: Point) -> None:
    """Routing, two grouped products and combination, over as many experts as the point says."""
    for call in made(point)[:2]:
        operands, (weights,) = held(call), call.args
        names = ("hidden", "expert_ffn", "experts")
        hidden, ffn, experts = (int(point.sizes[name]) for name in names)
        gate_up, down = weights.split([2 * ffn * experts * hidden, ffn * experts * hidden])
        chosen, shares = route(operands["logits"], Router(top_k=int(point.sizes["top_k"])))
        expected = naive_grouped_experts(
            operands["x"],
            chosen,
            shares,
            gate_up.view(experts, 2 * ffn, hidden),
            down.view(experts, hidden, ffn),
        )
        assert close(call(), expected, point.precision)
        assert len(chosen.unique()) == point.sizes["active_experts"]


@pytest.mark.parametrize("tokens", [8, 64])
def test_narrow_routing_hits_the_fewest_experts(tokens: int) -> None:
    """All tokens to the same top_k, or, at random, to nearly all."""
    active = {
        point.operation: point.sizes["active_experts"]
        for point in all_points()
        if point.kernel == "moe" and point.sizes["tokens"] == tokens and point.precision == "bf16"
    }
    assert active["narrow"] == 2
    assert active["spread"] >= 5


@pytest.mark.parametrize("point", few("elementwise"))
def test_elementwise(point: Point) -> None:
    """Copy, norm, SwiGLU, rotary and confidence, by their naive twins."""
    call = made(point)[0]
    found, operands = call(), held(call)
    if point.operation == "copy":
        assert torch.equal(found, call.args[0])
        assert 2 * found.numel() * found.element_size() == point.bytes
    elif point.operation == "norm":
        both = naive_add_rms_norm(operands["x"], operands["residual"], operands["weight"])
        assert all(close(*pair, point.precision) for pair in zip(found, both, strict=True))
    elif point.operation == "swiglu":
        assert close(found, naive_swiglu(operands["gate_up"]), point.precision)
    elif point.operation == "rotary":
        turned = naive_rotary(operands["heads"], operands["positions"])
        assert close(found, turned, point.precision)
    else:
        tokens, probabilities = naive_confidence(operands["logits"])
        assert torch.equal(found[0], tokens)
        assert close(found[1], probabilities, "fp32")


def test_every_elementwise_operation_is_met() -> None:
    """The test before compares by name; these are the names."""
    found = {point.operation for point in all_points() if point.kernel == "elementwise"}
    assert found == {"copy", "norm", "swiglu", "rotary", "confidence"}


def test_bytes_of_row_kernels_are_those_of_their_tensors() -> None:
    """SwiGLU reads two widths and writes one; a rotary reads and writes its own."""
    for point in all_points():
        if point.operation in {"swiglu", "rotary"} and point.bytes < 1e5:
            call = made(point)[0]
            operands = [t for n, t in held(call).items() if n in {"gate_up", "heads"}]
            tensors = [*operands, call()]
            moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            assert point.sizes["bytes_moved"] == point.bytes == moved
            assert point.sizes["row_bytes"] * point.shape[0] == moved
