"""Passes with a clock at every kernel."""

from collections.abc import Iterator
from itertools import count

import pytest

torch = pytest.importorskip("torch")

from kernels_ref.closed_loop import timed_pass  # noqa: E402
from kernels_ref.closed_loop.cells import Cell, Sizes, Stand, Sweeps, cells, stands  # noqa: E402
from kernels_ref.closed_loop.empty import empty_shape  # noqa: E402
from kernels_ref.closed_loop.timed_pass import Stopwatch  # noqa: E402
from kernels_ref.pass_shape import LayerShape, PassShape  # noqa: E402
from kernels_ref.passes import RandomDecoder  # noqa: E402

SHAPE = PassShape(
    hidden=12,
    vocab=11,
    layers=(LayerShape(count=3, query_heads=4, kv_heads=2, head_dim=4, ffn=10, qk_norm=True),),
    adapter_rank=2,
)
SIZES = Sizes(rows=3, queries={4: (4,)}, adapted=frozenset({4}), prompt_tokens=8, context_tokens=24)
CPU = torch.device("cpu")


def stand(shape: PassShape = SHAPE, sees: int = 4) -> Stand:
    """Random weights of a shape."""
    return Stand(RandomDecoder(shape, dtype=torch.float32), sees, SIZES)


def timed(cell: Cell) -> Stopwatch:
    """What one pass over *cell* told."""
    one, stopwatch = stand(), Stopwatch(CPU)
    one.timed(cell, stopwatch, one.decoder.new_cache(cell.rows, 32))
    return stopwatch


def test_every_kernel_of_every_layer_is_timed() -> None:
    """By hand: four products a layer, two norms, rotary, attention and gate, then a head."""
    found = timed(Cell(2, 4, 8)).seconds
    runs = {name: 0 for name, _ in found}
    for (name, _), seconds in found.items():
        runs[name] += len(seconds)

    assert runs == {
        "embedding": 1,
        "first norm": 1,
        "gemm": 4 * 3,
        "rotary": 3,
        "attention": 3,
        "norm": 2 * 3,
        "swiglu": 3,
        "lm_head": 1,
        "confidence": 1,
    }
    sizes = {sizes for name, sizes in found if name == "gemm"}
    assert sizes == {(8, 32, 12), (8, 12, 16), (8, 20, 12), (8, 12, 10)}


def test_adapters_are_timed_beside_their_products() -> None:
    """Of two rows of four queries six pass the adapters: all but the first of a row."""
    found = timed(Cell(2, 4, 8, is_adapted=True)).seconds
    adapters = {sizes for name, sizes in found if name == "adapters"}

    assert {sizes[0] for sizes in adapters} == {6}
    assert len(adapters) == 4


def test_a_timed_pass_says_what_a_plain_one_does() -> None:
    """A clock changes no number."""
    one = stand()
    tokens = torch.arange(8).view(2, 4)
    watched = timed_pass.TimedDecoder(one.decoder, Stopwatch(CPU))
    from kernels_ref.kernels.visibility import causal

    seen = causal(torch.zeros(2, dtype=torch.int64), torch.full((2,), 4))
    for gate in (None, torch.ones(2, 4, dtype=torch.bool)):
        states = [
            each.states(
                each.weights.embedding[tokens], seen, plans=each.plans(seen, 4, None), gate=gate
            )
            for each in (one.decoder, watched)
        ]
        assert torch.equal(*states)


def test_the_clock_takes_nothing_from_what_it_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that goes on by one a look, a kernel that looks twice took one less one look."""
    ticks: Iterator[int] = count()
    monkeypatch.setattr(timed_pass, "now_s", lambda _: float(next(ticks)))
    stopwatch = Stopwatch(CPU)
    assert stopwatch.timed(("kernel", (1,)), lambda: [next(ticks) for _ in range(4)]) is not None

    assert stopwatch.total_s == 5
    assert stopwatch.mean_s() == {("kernel", (1,)): 4}


def test_cells_reach_every_size_that_is_asked_for() -> None:
    """Rows, padded queries and the longest context are among them, prompts without a prefix."""
    found = cells(SIZES)

    assert {cell.rows for cell in found} >= {1, 2, 3}
    assert {cell.queries for cell in found if not cell.is_prompt} == {2, 4}
    assert max(cell.prefix_tokens + cell.queries for cell in found) == 24
    assert {cell.queries for cell in found if cell.is_prompt} >= {1, 8}
    assert any(cell.is_adapted for cell in found)
    assert len(found) == len(set(found))


def test_neighbours_differ_unless_they_are_prompts() -> None:
    """Every other row is a whole block further."""
    assert stand().prefixes(Cell(3, 4, 9)) == [8, 12, 8]
    assert stand().prefixes(Cell(3, 4, 0, is_prompt=True)) == [0, 0, 0]


def test_padding_is_as_decoders_have_it() -> None:
    """Of two recorded numbers half of the rows ask for each; prompts and drafts are whole."""
    sizes = Sizes(2, {4: (2, 4)}, frozenset(), 8, 24)
    one = Stand(stand().decoder, 4, sizes)

    assert one.asked(Cell(4, 4, 8)) == [2, 2, 4, 4]
    assert one.asked(Cell(1, 4, 8)) == [4]
    assert one.asked(Cell(2, 4, 8, is_adapted=True)) == [4, 4]
    assert one.asked(Cell(2, 4, 0, is_prompt=True)) == [4, 4]
    assert one.asked(Cell(2, 3, 8)) == [3, 3]


def test_one_stand_for_models_that_are_alike() -> None:
    """Same shape and sight share a stand of both sizes; another sight has its own."""
    decoder = stand().decoder
    other = Sizes(8, {1: (1,), 4: (2,)}, frozenset(), 4, 30)
    found = stands([(decoder, 4, SIZES), (decoder, 4, other), (decoder, 1, other)])

    assert len(found) == 2
    assert found[0].sizes == Sizes(8, {1: (1,), 4: (2, 4)}, frozenset({4}), 8, 30)


def test_the_fastest_visit_of_a_cell_is_kept_whole() -> None:
    """A slower one changes nothing."""
    sweeps = Sweeps(stand())
    assert {cell for part in sweeps.parts() for cell in part} == set(sweeps.cells)
    part = sweeps.cells[:2]
    sweeps.visit(part)
    before = dict(sweeps.fastest)
    for stopwatch in before.values():
        stopwatch.seconds = {key: [0.0] for key in stopwatch.seconds}
    sweeps.visit(part)

    assert sweeps.fastest == before


def test_the_empty_model_is_narrow_and_as_deep() -> None:
    """Layers, heads and vocabulary stay; every width is next to nothing."""
    empty = empty_shape(SHAPE)

    assert [layer.count for layer in empty.layers] == [3]
    assert (empty.layers[0].query_heads, empty.layers[0].kv_heads, empty.vocab) == (4, 2, 11)
    assert max(empty.hidden, empty.layers[0].head_dim, empty.layers[0].ffn or 0) <= 8
    assert empty_shape(PassShape(12, 11, SHAPE.layers)).adapter_rank is None
