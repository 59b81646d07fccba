"""What is measured, in which order: everything a decoder meets, and no kernel forgotten."""

from collections import Counter
from collections.abc import Iterator
from functools import cache, reduce

import pytest

pytest.importorskip("torch")

from hwprofiles.fitting.assemble import LEAST_POINTS
from hwprofiles.fitting.points import SIZES
from hwprofiles.kernel_shapes import KernelShapes
from kernels_ref.profiling.families import families
from kernels_ref.profiling.families.attention import (
    LEAST_KNOWN_PREFIX_TOKENS,
    LEAST_KNOWN_QUERIES,
)
from kernels_ref.profiling.families.elementwise import LAUNCH_BYTES, STREAM
from kernels_ref.profiling.point import Point
from kernels_ref.profiling.served import Served, leveled
from kernels_ref.profiling.session import PORTIONS, SKELETON, grid
from kernels_ref.profiling.spread import spread
from simulator.kernel_shapes import kernel_shapes
from simulator.library import MODELS

DEVICES = ["cpu", "cuda"]


@cache
def served(device: str) -> Served:
    """The spread of the device beside two models, as a user of a GPU asks for."""
    names = ("qwen3-8b", "llada2-mini") if device == "cuda" else ()
    shapes = reduce(KernelShapes.__or__, (kernel_shapes(MODELS.get(n)) for n in names))
    return spread(device) | Served.of(shapes)


@cache
def points(device: str) -> tuple[Point, ...]:
    """Its grid."""
    return tuple(grid(spread("cpu") if device == "cpu" else served("cuda")))


@pytest.mark.parametrize("device", DEVICES)
def test_every_count_of_tokens_is_there_for_every_product(device: str) -> None:
    """1 to 64 without a gap, for each shape and each data type, and far beyond."""
    found: dict[tuple[str, float, float], set[int]] = {}
    for point in points(device):
        if point.kernel == "gemm":
            key = (point.precision, point.sizes["n"], point.sizes["k"])
            found.setdefault(key, set()).add(int(point.sizes["m"]))
    assert len(found) >= 10
    for rows in found.values():
        assert set(range(1, 65)) <= rows
        assert max(rows) >= 2048


@pytest.mark.parametrize("model", MODELS.names())
def test_every_shape_of_a_model_is_there(model: str) -> None:
    """Each product, attention, head and expert of the model is measured at some size."""
    shapes = kernel_shapes(MODELS.get(model))
    found = grid(Served.of(shapes))
    products = {(p.sizes["n"], p.sizes["k"]) for p in found if p.kernel == "gemm"}
    heads = {
        tuple(p.sizes[name] for name in ("query_heads", "kv_heads", "head_dim"))
        for p in found
        if p.kernel == "attention_extend"
    }
    rows = {p.shape[1] for p in found if p.operation == "norm"}
    assert products == shapes.linears
    assert heads == shapes.heads
    assert rows == shapes.widths
    entries = {(p.sizes["n"], p.sizes["k"]) for p in found if p.kernel == "lm_head"}
    assert entries == shapes.vocabularies
    experts = {(p.sizes["expert_ffn"], p.sizes["experts"]) for p in found if p.kernel == "moe"}
    assert experts == {(each.ffn, each.count) for each in shapes.experts}


def behind_the_skeleton(device: str) -> Iterator[Point]:
    """The grid without the points that are ahead so that every kernel has a curve."""
    seen: Counter[tuple[str, str]] = Counter()
    for point in points(device):
        seen[point.kernel, point.precision] += 1
        if seen[point.kernel, point.precision] > SKELETON:
            yield point


@pytest.mark.parametrize("device", DEVICES)
def test_levels_rise_and_no_point_comes_twice(device: str) -> None:
    """What is more important is earlier, and each measurement is made once."""
    rest = list(behind_the_skeleton(device))
    levels = [point.level for point in rest]
    assert levels == sorted(levels)
    assert len({point.key for point in points(device)}) == len(points(device))


@pytest.mark.parametrize("device", DEVICES)
def test_enough_of_every_kernel_for_a_curve_comes_early(device: str) -> None:
    """A short budget makes a coarse profile and not none: a skeleton of each kernel is ahead."""
    kernels = {(point.kernel, point.precision) for point in points(device)}
    early = points(device)[: SKELETON * len(kernels)]
    counts = Counter((point.kernel, point.precision) for point in early)
    assert set(counts) == kernels
    assert min(counts.values()) >= LEAST_POINTS


@pytest.mark.parametrize("device", DEVICES)
def test_streams_and_the_launch_floor_come_first(device: str) -> None:
    """Bandwidth and the shortest kernel scale every fit; in every data type, before all else."""
    streams = [point for point in points(device) if point.operation == STREAM]
    assert list(points(device)[: len(streams)]) == streams
    smallest = {p.precision for p in streams if p.sizes["bytes_moved"] == LAUNCH_BYTES}
    # Nothing but weights is ever fp8.
    assert smallest == {point.precision for point in points(device)} - {"fp8"}
    assert max(point.sizes["bytes_moved"] for point in streams) >= 1e9


@pytest.mark.parametrize("device", DEVICES)
def test_no_kernel_starves(device: str) -> None:
    """Wherever a budget ends within a level, kernels and data types are equally far, to a tenth."""
    by_level: dict[int, list[Point]] = {}
    for point in behind_the_skeleton(device):
        by_level.setdefault(point.level, []).append(point)
    for level in by_level.values():
        total = Counter((point.kernel, point.precision) for point in level)
        done: Counter[tuple[str, str]] = Counter()
        for point in level:
            done[point.kernel, point.precision] += 1
            if done.total() % 7 == 0:
                # One portion apart, and what rounding to whole points adds.
                most = max((done[key] - 1) / total[key] for key in total)
                least = min((done[key] + 1) / total[key] for key in total)
                # The skeleton took some of a level's points ahead of the others.
                assert most - least <= 1 / PORTIONS + SKELETON / min(total.values())


@pytest.mark.parametrize("device", DEVICES)
def test_within_a_level_shapes_are_mixed(device: str) -> None:
    """The first tenth of a level's products has most of its shapes: chance orders them."""
    first = points(device)
    level = [p for p in first if p.kernel == "gemm" and p.level == 0]
    shapes = {(p.sizes["n"], p.sizes["k"]) for p in level}
    early = {(p.sizes["n"], p.sizes["k"]) for p in level[: 2 * len(shapes)]}
    assert len(early) > len(shapes) / 2


@pytest.mark.parametrize("device", DEVICES)
def test_attention_goes_to_long_prefixes_and_large_batches(device: str) -> None:
    """Prefixes up to 32K, batches up to 256, one to 256 queries, and prompts of thousands."""
    extends = [p.sizes for p in points(device) if p.kernel == "attention_extend"]
    assert max(s["kv_tokens"] - s["query_tokens"] for s in extends) == 32768
    assert min(s["kv_tokens"] - s["query_tokens"] for s in extends) == 0
    assert max(s["sequences"] for s in extends) == 256
    assert {1, 2, 4, 16, 32, 64, 128, 256} <= {int(s["query_tokens"]) for s in extends}
    prompts = [p.sizes for p in points(device) if p.kernel == "attention_prefill"]
    assert all(s["query_tokens"] == s["kv_tokens"] for s in prompts)
    assert max(s["query_tokens"] for s in prompts) >= 16384


def test_the_least_known_attention_comes_first_on_a_gpu() -> None:
    """Blocks of queries over long prefixes are before single queries; not so on a CPU."""

    def is_least_known(point: Point) -> bool:
        queries = point.sizes["query_tokens"]
        prefix = point.sizes["kv_tokens"] - queries
        return queries >= LEAST_KNOWN_QUERIES and prefix >= LEAST_KNOWN_PREFIX_TOKENS

    for device in DEVICES:
        extends = [p for p in points(device) if p.kernel == "attention_extend"]
        first = extends[0].level
        at_once = [is_least_known(point) for point in extends if point.level == first]
        assert len(at_once) > 20
        assert all(at_once) == (device == "cuda")


def test_a_gpu_is_timed_by_every_backend() -> None:
    """The fastest is kept later, so each must be there; only one that takes masks is masked."""
    extends = [p for p in points("cuda") if p.kernel == "attention_extend"]
    assert {p.backend for p in extends} == {"flash", "cudnn", "flex"}
    masked = {p.backend for p in extends if p.operation == "causal"}
    assert masked == {"flex"}


@pytest.mark.parametrize("device", DEVICES)
def test_points_have_the_sizes_that_curves_take(device: str) -> None:
    """Sizes are named and ordered as the fits ask for them, positive, and work is counted."""
    for point in points(device):
        assert tuple(point.sizes) == SIZES[point.kernel]
        assert all(size > 0 or name == "row_bytes" for name, size in point.sizes.items())
        assert point.bytes > 0
        assert point.flop > 0 or point.kernel == "elementwise"


def test_work_of_points_by_hand() -> None:
    """2 m n k flop and the weights' bytes; 4 flop per score entry; 6 flop per expert weight."""
    shapes = KernelShapes(
        linears=frozenset({(5, 7)}), heads=frozenset({(4, 2, 8)}), vocabularies=frozenset({(9, 5)})
    )
    found = {point.key: point for point in grid(Served.of(shapes))}
    product = found["gemm bf16   () m=3 n=5 k=7"]
    assert (product.flop, product.bytes) == (2 * 3 * 5 * 7, 2 * 5 * 7)
    sizes = "sequences=2 query_tokens=4 kv_tokens=132 query_heads=4 kv_heads=2 head_dim=8"
    extend = found[f"attention_extend bf16 whole sdpa () {sizes}"]
    assert extend.flop == 4 * 2 * 4 * 8 * 4 * 132
    assert extend.bytes == 2 * 2 * 2 * 8 * 132 * 2
    sizes = "sequences=1 query_tokens=16 kv_tokens=16 query_heads=4 kv_heads=2 head_dim=8"
    prompt = found[f"attention_prefill bf16 causal sdpa () {sizes}"]
    # 1 + 2 + ... + 16 pairs of a query and a key that it sees.
    assert prompt.flop == 4 * 4 * 8 * (16 * 17 / 2)


def test_the_earlier_level_holds() -> None:
    """A shape that a model has and the spread too is as important as to the model."""
    first = Served(linears={(1, 2): 1, (3, 4): 0}, most_tokens=5)
    both = first | Served(linears={(1, 2): 0, (3, 4): 2, (5, 6): 2}, most_tokens=9)
    assert both.linears == {(1, 2): 0, (3, 4): 0, (5, 6): 2}
    assert both.most_tokens == 5


def test_values_come_at_their_first_level_up_to_the_most() -> None:
    """Repeats are left out, and what is too large too."""
    assert list(leveled([(1, 8), (8, 2, 99)], 50)) == [(1, 0), (8, 0), (2, 1)]


def test_families_name_their_kernels() -> None:
    """Each kernel is of one family, and each family's points are of its kernels."""
    named = [kernel for family in families().values() for kernel in family.KERNELS]
    assert len(named) == len(set(named))
    for family in families().values():
        found = {point.kernel for point in family.points(served("cuda"))}
        assert found <= set(family.KERNELS)
