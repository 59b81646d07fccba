"""Laws that every curve of every shipped profile keeps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwprofiles import HardwareProfile, KernelTime
from hwprofiles.curves import AttentionCurve

# A sum and a p-norm may lose the last bits of a time.
ROUNDING = 1e-12

tokens = st.integers(0, 20_000)
sizes = st.integers(1, 70_000)
batches = st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 200_000)), max_size=12)
heads = st.sampled_from([(1, 1), (8, 8), (32, 8), (16, 4), (64, 8), (40, 8), (128, 1), (28, 4)])
kinds = st.sampled_from(["extend", "prefill"])
parts = ("compute_s", "memory_s", "link_s", "launch_s")


def total(time: KernelTime) -> float:
    """The one time of a scalar call, seconds."""
    assert time.seconds.shape == ()
    return float(time.seconds)


def attention(profile: HardwareProfile, kind: str) -> AttentionCurve:
    """The curve of that kind."""
    kernels = profile.kernels
    curve = (kernels.attention_extend if kind == "extend" else kernels.attention_prefill)["bf16"]
    assert isinstance(curve, AttentionCurve)
    return curve


def attend(
    curve: AttentionCurve, batch: list[tuple[int, int]], head_counts: tuple[int, int]
) -> KernelTime:
    """Attention of a batch of (queries, keys before them)."""
    queries = np.array([queries for queries, _ in batch], dtype=float)
    prefix = np.array([prefix for _, prefix in batch], dtype=float)
    return curve.time(
        queries,
        prefix + queries,
        query_heads=head_counts[0],
        kv_heads=head_counts[1],
        head_dim=128,
        kv_element_bytes=2.0,
    )


def assert_rises(smaller: float, larger: float) -> None:
    """The second of two times is finite and not below the first."""
    assert np.isfinite(larger)
    assert 0.0 <= smaller <= larger * (1 + ROUNDING)


def assert_parts_fit(time: KernelTime) -> None:
    """Each part is finite, not negative, as large as the whole at most, and of its shape."""
    for name in parts:
        part = getattr(time, name)
        assert part.shape == time.seconds.shape
        assert np.all(part >= 0)
        assert np.all(part <= time.seconds * (1 + ROUNDING))


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
@given(m=tokens, n=sizes, k=sizes, more=st.integers(0, 5_000))
def test_gemm_never_gets_cheaper_with_size(
    profile: HardwareProfile, weights: str, m: int, n: int, k: int, more: int
) -> None:
    """A product costs no less with more rows, outputs or inputs."""
    curve = profile.kernels.gemm[weights]
    here = total(curve.time(m, n, k))
    assert_rises(here, total(curve.time(m + more, n, k)))
    assert_rises(here, total(curve.time(m, n + more, k)))
    assert_rises(here, total(curve.time(m, n, k + more)))
    assert_parts_fit(curve.time([m, m + more], n, k))


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_vast_gemm_runs_at_the_fitted_rate(profile: HardwareProfile, weights: str) -> None:
    """Launch and bandwidth vanish from a product large in every direction; below the peak."""
    curve = profile.kernels.gemm[weights]
    size = 1e6
    rate = 2 * size**3 / total(curve.time(size, size, size))
    assert rate == pytest.approx(curve.flop_per_s, rel=0.02)
    peaks = profile.peaks
    assert rate < (peaks.flop_per_s(weights))


def test_tall_weights_stream_at_the_fitted_bandwidth(profile: HardwareProfile) -> None:
    """One row against a vast matrix takes its bytes over the bandwidth, below the peak."""
    curve = profile.kernels.lm_head["bf16"]
    rate = 2 * 4096 * 1e8 / total(curve.time(1, 1e8, 4096))
    assert rate == pytest.approx(curve.memory_bytes_per_s, rel=0.02)
    assert rate < profile.peaks.memory_bytes_per_s


@given(
    kind=kinds,
    batch=batches,
    head_counts=heads,
    at=st.integers(0, 11),
    queries=st.integers(0, 500),
    keys=st.integers(0, 5_000),
)
def test_attention_never_gets_cheaper_with_size(
    profile: HardwareProfile,
    kind: str,
    batch: list[tuple[int, int]],
    head_counts: tuple[int, int],
    at: int,
    queries: int,
    keys: int,
) -> None:
    """Attention costs no less with one more sequence, or more queries or keys in one of them."""
    curve = attention(profile, kind)
    here = total(attend(curve, batch, head_counts))
    assert_parts_fit(attend(curve, batch, head_counts))
    assert_rises(here, total(attend(curve, [*batch, (queries, keys)], head_counts)))
    if at < len(batch):
        old_queries, old_keys = batch[at]
        for grown in ((old_queries + queries, old_keys), (old_queries, old_keys + keys)):
            changed = [*batch[:at], grown, *batch[at + 1 :]]
            assert_rises(here, total(attend(curve, changed, head_counts)))


@given(kind=kinds, head_counts=heads, keys=st.integers(1, 50_000), data=st.data())
def test_more_queries_among_the_same_keys_cost_no_less(
    profile: HardwareProfile,
    kind: str,
    head_counts: tuple[int, int],
    keys: int,
    data: st.DataObject,
) -> None:
    """Causality spares the early queries their late keys, yet never makes more queries cheaper."""
    curve = attention(profile, kind)
    fewer = data.draw(st.integers(0, keys))
    more = data.draw(st.integers(fewer, keys))
    times = [total(attend(curve, [(q, keys - q)], head_counts)) for q in (fewer, more)]
    assert_rises(*times)


@given(kind=kinds, batch=batches, head_counts=heads)
def test_sequences_without_queries_are_absent(
    profile: HardwareProfile, kind: str, batch: list[tuple[int, int]], head_counts: tuple[int, int]
) -> None:
    """Leaving out the sequences that ask nothing changes nothing; none at all cost nothing."""
    curve = attention(profile, kind)
    present = [(queries, prefix) for queries, prefix in batch if queries]
    here = total(attend(curve, batch, head_counts))
    assert here == pytest.approx(total(attend(curve, present, head_counts)), rel=1e-12)
    assert (here == 0.0) == (not present)


def test_attention_over_a_vast_cache_streams_it(profile: HardwareProfile) -> None:
    """One query over very many keys takes the bytes over the bandwidth, below the peak."""
    time = attend(attention(profile, "extend"), [(1, 10**6)] * 64, (32, 8))
    rate = 64 * 10**6 * 8 * 128 * 2 * 2 / total(time)
    assert rate == pytest.approx(attention(profile, "extend").memory_bytes_per_s, rel=0.04)
    assert rate < profile.peaks.memory_bytes_per_s


def test_attention_of_many_queries_grows_by_the_tile(profile: HardwareProfile) -> None:
    """Beyond a full tile each 128 rows more cost what prompts pay: 1.7-1.8 us per 128 keys.

    4 x 128 rows x 128 keys x 128 at the fitted 1.19 PFLOP/s of 148 processors are 1.04 us.
    """
    curve = attention(profile, "extend")
    few, many = (total(attend(curve, [(q, 2**17 - q)] * 33, (32, 8))) for q in (2048, 4096))
    tiles = 33 * 8 * (4096 - 2048) * 4 / 128
    low, high = (1.0e-6, 1.1e-6) if profile.name == "b200-sxm" else (1.6e-6, 1.9e-6)
    assert low < (many - few) / tiles * profile.multiprocessors / (2**17 / 128) < high


def test_attention_keeps_the_axes_after_the_sequence(profile: HardwareProfile) -> None:
    """Many steps in one call give what one call per step gives."""
    curve = attention(profile, "extend")
    queries = np.array([32.0, 0.0, 1.0])
    keys = np.array([[100.0, 5_000.0], [7.0, 9.0], [60_000.0, 70_000.0]])
    shape: dict[str, Any] = {
        "query_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "kv_element_bytes": 2.0,
    }
    together = curve.time(queries, keys, **shape)
    alone = [curve.time(queries, keys[:, step], **shape).seconds for step in range(2)]
    assert together.seconds.tolist() == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
@given(
    count=st.integers(0, 40_000),
    active=st.integers(1, 256),
    more=st.integers(0, 4_000),
    hidden=st.integers(64, 8_192),
    ffn=st.integers(32, 8_192),
)
def test_moe_never_gets_cheaper_with_size(
    profile: HardwareProfile,
    weights: str,
    count: int,
    active: int,
    more: int,
    hidden: int,
    ffn: int,
) -> None:
    """A module costs no less with more tokens, active experts or width; no tokens cost nothing."""
    curve = profile.kernels.moe[weights]

    def cost(tokens: int, used: int, hidden: int, ffn: int) -> float:
        time = curve.time(tokens, used, hidden=hidden, expert_ffn=ffn, top_k=8, experts=256)
        assert_parts_fit(time)
        return total(time)

    here = cost(count, active, hidden, ffn)
    assert (here == 0.0) == (count == 0)
    assert_rises(here, cost(count + more, active, hidden, ffn))
    assert_rises(here, cost(count, active + more, hidden, ffn))
    assert_rises(here, cost(count, active, hidden + more, ffn))
    assert_rises(here, cost(count, active, hidden, ffn + more))


def test_moe_of_a_large_prompt_is_bound_by_arithmetic(profile: HardwareProfile) -> None:
    """Many tokens through wide experts run near the fitted rate, below the peak."""
    curve = profile.kernels.moe["bf16"]
    count = 400_000
    time = curve.time(count, 8, hidden=8192, expert_ffn=16384, top_k=2, experts=8)
    rate = 6 * 8192 * 16384 * count * 2 / total(time)
    assert rate == pytest.approx(curve.flop_per_s, rel=0.05)
    assert rate < profile.peaks.bf16_flop_per_s


@given(moved=st.integers(0, 10**10), more=st.integers(0, 10**9))
def test_streaming_never_gets_cheaper_with_bytes(
    profile: HardwareProfile, moved: int, more: int
) -> None:
    """More bytes cost no less; none cost nothing; very many run at the bandwidth."""
    curve = profile.kernels.elementwise
    assert_rises(total(curve.time(moved)), total(curve.time(moved + more)))
    assert_parts_fit(curve.time([moved, more]))
    assert total(curve.time(0)) == 0.0
    assert 1e12 / total(curve.time(1e12)) == pytest.approx(curve.memory_bytes_per_s, rel=1e-3)
    assert curve.memory_bytes_per_s < profile.peaks.memory_bytes_per_s


@given(
    message=st.integers(0, 4 * 10**9),
    more=st.integers(0, 10**9),
    ranks=st.sampled_from([1, 2, 4, 8]),
)
def test_all_reduce_never_gets_cheaper_with_bytes(
    profile: HardwareProfile, message: int, more: int, ranks: int
) -> None:
    """A longer message costs no less; an empty one, or one GPU alone, costs nothing."""
    curve = profile.kernels.all_reduce
    assert curve is not None
    here = total(curve.time(message, ranks))
    assert_rises(here, total(curve.time(message + more, ranks)))
    assert_parts_fit(curve.time([message, more], ranks))
    assert (here == 0.0) == (message == 0 or ranks == 1)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_vast_all_reduce_stays_below_the_link(profile: HardwareProfile, ranks: int) -> None:
    """Each GPU sends 2 (r-1)/r of the message, on a link that carries no more than it promises."""
    curve = profile.kernels.all_reduce
    assert curve is not None
    message = 1e11
    sent = 2 * (ranks - 1) / ranks * message
    # NVLink SHARP, for eight, adds inside the switch and halves what a GPU has to send.
    least = message if ranks == 8 else sent
    assert least / total(curve.time(message, ranks)) < (profile.peaks.link_bytes_per_s or 0.0)


def test_a_number_of_ranks_not_measured_is_refused(profile: HardwareProfile) -> None:
    """The message names what was asked and what is known."""
    curve = profile.kernels.all_reduce
    assert curve is not None
    with pytest.raises(ValueError, match=r"over 3 GPUs; known: 2, 4, 8"):
        curve.time(1024, 3)
