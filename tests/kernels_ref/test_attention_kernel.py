"""Every backend of this machine against one query and head at a time."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.kernels.attention import (
    AttentionPlan,
    Backend,
    attention,
    backends,
    naive_attention,
    prepare,
)
from kernels_ref.kernels.visibility import (
    Visibility,
    block_causal,
    causal,
    prefix_full,
    sliding,
    tree,
    whole,
)

# Flex attention runs as written here, which it advises against.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
QUERIES, KEYS, HEAD_DIM = 6, 150, 16
RAGGED = ([0, 3, 130, 9], [6, 4, 6, 0])
EVEN = ([70, 70, 70, 70], [6, 6, 6, 6])
HEADS = [(4, 4), (4, 1), (6, 2)]
BACKENDS: list[Backend] = ["sdpa", "flex"]
KINDS = ["whole", "causal", "block-causal", "prefix-full", "tree", "sliding", "sliding-whole"]


@pytest.fixture(autouse=True, scope="module")
def as_written() -> Iterator[None]:
    """Flex attention does not trace itself anew for every mask, which takes most of a second."""
    with pytest.MonkeyPatch.context() as patch:
        switch = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
        patch.setattr(switch, True, raising=False)
        yield


def forked(query_tokens: torch.Tensor) -> torch.Tensor:
    """Trees that fork at every node: the parent of node n is (n - 1) // 2."""
    matrix = torch.zeros(len(query_tokens), QUERIES, QUERIES, dtype=torch.bool)
    for row, tokens in enumerate(query_tokens.tolist()):
        for node in range(tokens):
            matrix[row, node] = matrix[row, (node - 1) // 2] if node else False
            matrix[row, node, node] = True
    return matrix


def visibility(kind: str, lengths: tuple[list[int], list[int]]) -> Visibility:
    """One of every kind, over rows of these prefix and query tokens."""
    prefix, queries = map(torch.tensor, lengths)
    made = {
        "whole": lambda: whole(prefix, queries),
        "causal": lambda: causal(prefix, queries),
        "block-causal": lambda: block_causal(prefix, queries, 4),
        "prefix-full": lambda: prefix_full(prefix, queries, prefix + 2, 3),
        "tree": lambda: tree(prefix, forked(queries)),
        "sliding": lambda: sliding(causal(prefix, queries), 5),
        "sliding-whole": lambda: sliding(whole(prefix, queries), 40),
    }
    return made[kind]()


def tensors(
    rows: int, heads: tuple[int, int], dtype: torch.dtype = torch.float32, queries: int = QUERIES
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key cache and value cache, the same each time."""
    source = torch.Generator().manual_seed(7)
    query = torch.randn(rows, queries, heads[0], HEAD_DIM, generator=source)
    cached = torch.randn(2, rows, KEYS, heads[1], HEAD_DIM, generator=source)
    return query.to(dtype), cached[0].to(dtype), cached[1].to(dtype)


def planned(
    seen: Visibility, heads: tuple[int, int], backend: Backend, queries: int = QUERIES
) -> AttentionPlan:
    """The plan for these tensors."""
    return prepare(
        seen,
        rows=seen.rows,
        queries=queries,
        keys=KEYS,
        query_heads=heads[0],
        kv_heads=heads[1],
        backend=backend,
    )


def assert_as_naive(
    seen: Visibility,
    heads: tuple[int, int],
    backend: Backend,
    dtype: torch.dtype = torch.float32,
    queries: int = QUERIES,
) -> None:
    """The backend agrees with the naive twin up to the rounding of the dtype."""
    given_tensors = tensors(seen.rows, heads, dtype, queries)
    found = attention(*given_tensors, planned(seen, heads, backend, queries))
    assert found.dtype == dtype
    expected = naive_attention(*given_tensors, seen)
    tolerance = TOLERANCE[dtype]
    assert torch.allclose(found.float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("lengths", [RAGGED, EVEN], ids=["ragged", "even"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_its_naive_twin(
    kind: str, lengths: tuple[list[int], list[int]], heads: tuple[int, int], backend: Backend
) -> None:
    """Masks, head groups and ragged rows give what attending one query at a time gives."""
    assert_as_naive(visibility(kind, lengths), heads, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("kind", ["whole", "block-causal"])
def test_every_dtype_is_its_naive_twin(kind: str, dtype: torch.dtype, backend: Backend) -> None:
    """Half and double precision come back as they went in, right to their rounding."""
    assert_as_naive(visibility(kind, RAGGED), (4, 2), backend, dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    kind=st.sampled_from(KINDS),
    batch=st.lists(
        st.tuples(st.integers(0, KEYS - QUERIES), st.integers(0, QUERIES)), min_size=1, max_size=4
    ),
)
@settings(max_examples=15)
def test_any_lengths_are_their_naive_twin(
    backend: Backend, kind: str, batch: list[tuple[int, int]]
) -> None:
    """Whatever the rows' lengths are, empty rows included."""
    prefix, queries = map(list, zip(*batch, strict=True))
    assert_as_naive(visibility(kind, (prefix, queries)), (2, 1), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("queries", "heads"), [(40, (4, 1)), (140, (2, 1))])
@pytest.mark.parametrize("kind", ["causal", "block-causal"])
def test_many_queries_are_their_naive_twin(
    kind: str, queries: int, heads: tuple[int, int], backend: Backend
) -> None:
    """Also where packed rows exceed a tile, and where one head's queries fill it."""
    lengths = ([0, 10], [queries, queries - 1])
    assert_as_naive(visibility(kind, lengths), heads, backend, queries=queries)


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_is_zero(backend: Backend) -> None:
    """Queries beyond a row's count come back as zeros, not as nothing over nothing."""
    seen = visibility("block-causal", RAGGED)
    found = attention(*tensors(4, (4, 2)), planned(seen, (4, 2), backend))
    for row, tokens in enumerate(RAGGED[1]):
        assert not found[row, tokens:].any()
        assert found[row, :tokens].all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_hidden_does_not_matter(backend: Backend) -> None:
    """Stale entries behind a row's last key change nothing, however large."""
    seen = visibility("causal", RAGGED)
    query, key, value = tensors(4, (4, 2))
    before = attention(query, key, value, planned(seen, (4, 2), backend))
    for row, (prefix, tokens) in enumerate(zip(*RAGGED, strict=True)):
        key[row, prefix + tokens :] = 1e4
        value[row, prefix + tokens :] = 1e4

    assert torch.equal(attention(query, key, value, planned(seen, (4, 2), backend)), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_rows_are_independent(backend: Backend) -> None:
    """A row in a batch of other lengths gets what it gets alone: FlowBlock's packing is exact."""
    heads = (4, 2)
    query, key, value = tensors(4, heads)
    prefix, queries = map(torch.tensor, RAGGED)
    together = attention(
        query, key, value, planned(block_causal(prefix, queries, 4), heads, backend)
    )
    for row in range(4):
        own = slice(row, row + 1)
        seen = block_causal(prefix[own], queries[own], 4)
        alone = attention(query[own], key[own], value[own], planned(seen, heads, backend))
        assert torch.allclose(together[own], alone, atol=1e-6)


def test_masks_only_where_something_is_hidden() -> None:
    """No mask for whole blocks, single queries, prefill from nothing, or one block alone."""
    prefix, queries = map(torch.tensor, EVEN)
    none, one = torch.zeros_like(prefix), torch.ones_like(queries)
    maskless = [
        whole(prefix, queries),
        causal(prefix, one),
        causal(none, queries),
        block_causal(prefix, queries, 80),
        sliding(causal(prefix, queries), 5),
    ]
    plans = [planned(seen, (4, 2), "sdpa") for seen in maskless]

    assert [len(plan.calls) for plan in plans] == [1, 1, 1, 1, 1]
    assert [plan.calls[0].mask is None for plan in plans] == [True, True, True, True, False]
    assert [plan.calls[0].causal for plan in plans] == [False, False, True, False, False]


def test_rows_cost_their_own_length() -> None:
    """Neighbours of one length share a call that ends at their last key; empty rows have none."""
    plan = planned(visibility("whole", ([5, 5, 90, 2], [6, 6, 6, 0])), (4, 2), "sdpa")
    runs = [call.run for call in plan.calls]

    assert [(run.first, run.end, run.key_tokens) for run in runs] == [(0, 2, 11), (2, 3, 96)]


def test_block_mask_reads_the_visible_tiles_only() -> None:
    """Rows of 6, 7 and 136 keys need 1, 1 and 2 tiles of 128, an empty row none."""
    plan = planned(visibility("whole", RAGGED), (4, 2), "flex")
    assert plan.block_mask is not None

    assert plan.block_mask.kv_num_blocks.flatten().tolist() == [1, 1, 2, 0]
    assert plan.block_mask.full_kv_num_blocks is None


@pytest.mark.parametrize(
    ("queries", "heads", "packed"),
    [
        (6, (4, 2), False),  # the decode kernel packs 2 heads by itself
        (32, (4, 1), False),
        (33, (4, 1), True),  # 132 rows are more than its tile
        (6, (6, 2), True),  # 3 heads are not a power of two
        (6, (4, 4), False),
        (128, (4, 1), False),
    ],
)
def test_flex_packs_where_its_kernel_does_not(
    queries: int, heads: tuple[int, int], *, packed: bool
) -> None:
    """Heads are packed in front of the kernel where it would leave tiles empty."""
    seen = whole(torch.tensor([1]), torch.tensor([queries]))

    assert planned(seen, heads, "flex", queries).packed == packed


def test_backends_depend_on_the_device_alone_on_the_cpu() -> None:
    """A CPU runs the library's call and flex attention, and a plan takes the first."""
    seen = visibility("tree", RAGGED)

    assert backends(torch.device("cpu"), seen) == ("sdpa", "flex")
    plan = prepare(seen, rows=4, queries=QUERIES, keys=KEYS, query_heads=4, kv_heads=2)
    assert plan.backend == "sdpa"


@pytest.mark.parametrize(
    ("kind", "lengths", "maskless"),
    [
        ("whole", EVEN, True),
        ("whole", RAGGED, False),
        ("causal", ([0] * 4, [6] * 4), True),
        ("causal", ([9] * 4, [1] * 4), True),
        ("causal", EVEN, False),
        ("block-causal", EVEN, False),
        ("sliding", EVEN, False),
    ],
)
def test_maskless_kernels_are_offered_where_they_are_right(
    kind: str, lengths: tuple[list[int], list[int]], *, maskless: bool
) -> None:
    """A GPU's kernels without a mask take rows of one length, whole or causal from nothing."""
    offered = backends(torch.device("cuda"), visibility(kind, lengths))

    assert offered == (("flash", "cudnn", "flex") if maskless else ("flex",))


def test_bad_plans_are_refused() -> None:
    """What does not fit is told with its value."""
    seen = visibility("whole", RAGGED)
    with pytest.raises(ValueError, match="got 6 and 4"):
        planned(seen, (6, 4), "sdpa")
    with pytest.raises(ValueError, match="6 queries of 6 and 136 keys of 100"):
        prepare(seen, rows=4, queries=QUERIES, keys=100, query_heads=1, kv_heads=1)
    with pytest.raises(ValueError, match="6 queries of 5"):
        planned(seen, (4, 2), "sdpa", queries=5)
    with pytest.raises(ValueError, match="of 4 rows, not 3"):
        prepare(seen, rows=3, queries=QUERIES, keys=KEYS, query_heads=1, kv_heads=1)
    with pytest.raises(ValueError, match="-2 before 3"):
        planned(visibility("whole", ([-2], [3])), (1, 1), "sdpa")
    with pytest.raises(ValueError, match="flash cannot run here"):
        planned(seen, (4, 2), "flash")


def test_tensors_of_another_shape_are_refused() -> None:
    """A plan is for the sizes it was made for."""
    plan = planned(visibility("whole", RAGGED), (4, 2), "sdpa")
    query, key, value = tensors(4, (4, 2))
    with pytest.raises(ValueError, match=r"query is \[4, 5"):
        attention(query[:, :5], key, value, plan)
    with pytest.raises(ValueError, match=r"value_cache is \[4, 150, 1"):
        attention(query, key, value[:, :, :1], plan)
