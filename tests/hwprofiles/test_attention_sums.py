"""A batch's attention depends on its sequences through sums and maxima, which add up."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import hwprofiles
from hwprofiles import HardwareProfile
from hwprofiles.curves import AttentionCurve, AttentionTableCurve
from hwprofiles.curves.attention import HeadShape, present_sequences
from hwprofiles.curves.smooth import p_norm, p_norm_of_times

NAMES = ("b200-sxm", "h100-sxm", "h200-sxm", "xeon-amx-1-thread")
KINDS = ("attention_extend", "attention_prefill")
HEADS = [(32, 8, 128), (16, 1, 64), (28, 4, 128), (4, 4, 32)]

batches = st.lists(st.tuples(st.integers(0, 600), st.integers(0, 40_000)), min_size=1, max_size=9)
times = st.one_of(st.just(0.0), st.floats(1e-12, 1e3))


@cache
def curve(name: str, kind: str) -> AttentionCurve | AttentionTableCurve:
    """The bf16 curve of a shipped profile."""
    text = (hwprofiles.DATA / f"{name}.yaml").read_text(encoding="utf-8")
    profile = TypeAdapter(HardwareProfile).validate_python(yaml.safe_load(text))
    found: Any = getattr(profile.kernels, kind)["bf16"]
    return found  # type: ignore[no-any-return]


def shape_of(heads: tuple[int, int, int]) -> HeadShape:
    """A cache in bf16 for (query heads, KV heads, head size)."""
    query_heads, kv_heads, head_dim = heads
    return HeadShape(float(query_heads), float(kv_heads), head_dim, 2.0)


def naive_s(
    form: AttentionCurve, batch: list[tuple[int, int]], heads: tuple[int, int, int]
) -> float:
    """The documented form, one sequence, KV head and granule of rows after the other."""
    query_heads, kv_heads, head_dim = heads
    moved = shared = alone = 0.0
    units, longest = 0, 0
    for queries, before in batch:
        if not queries:
            continue
        keys = before + queries
        longest = max(longest, keys)
        moved += 2 * 2 * head_dim * (kv_heads * keys + query_heads * queries)
        rows = queries * query_heads / kv_heads
        tiles = math.ceil(rows / form.tile_rows)
        units += kv_heads * tiles
        whole = rows if tiles == 1 else tiles * form.tile_rows
        granules = math.ceil(whole / form.row_granule)
        step = form.row_granule * kv_heads / query_heads if form.causal else 0.0
        seen = sum(keys - step * before for before in range(granules))
        flop = 4 * head_dim * form.row_granule
        shared += flop * kv_heads * seen
        tile = min(form.row_granule * granules, form.tile_rows)
        parts = form.multiprocessors / form.key_splits
        alone = max(alone, 4 * head_dim * tile * keys * parts)
    if not longest:
        return 0.0
    waves = form.wave_s * max(0, math.ceil(units / form.multiprocessors) - 1)
    split = form.split_s * (1 - math.exp(-longest / form.split_kv_tokens))
    memory, compute = moved / form.memory_bytes_per_s, max(shared, alone) / form.flop_per_s
    roof = (memory**form.roof_power + compute**form.roof_power) ** (1 / form.roof_power)
    power = form.wave_power
    return form.launch_s + split + float((waves**power + roof**power) ** (1 / power))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES[:3])
@given(batch=batches, heads=st.sampled_from(HEADS))
def test_the_sums_say_what_the_form_says(
    name: str, kind: str, batch: list[tuple[int, int]], heads: tuple[int, int, int]
) -> None:
    """Terms summed over a batch give the documented formula, worked out in plain loops."""
    form = curve(name, kind)
    assert isinstance(form, AttentionCurve)
    queries = np.array([float(asked) for asked, _ in batch])
    keys = np.array([float(asked + before) for asked, before in batch])

    terms = form.row_terms(*present_sequences(queries, keys), shape_of(heads))

    assert float(form.time_of(*terms.of_batch()).seconds) == pytest.approx(
        naive_s(form, batch, heads), rel=1e-11
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@given(batch=batches, heads=st.sampled_from(HEADS), data=st.data())
def test_parts_of_a_batch_add_up(
    name: str,
    kind: str,
    batch: list[tuple[int, int]],
    heads: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    """Sums of one part and of the rest, added, and their larger maxima are those of the batch."""
    form, cut = curve(name, kind), data.draw(st.integers(0, len(batch)))
    numbers = np.array(batch, dtype=float)
    queries, keys = present_sequences(numbers[:, 0], numbers.sum(axis=1))
    shape = shape_of(heads)

    halves = [
        form.row_terms(queries[part], keys[part], shape).of_batch()
        for part in (slice(cut), slice(cut, None))
    ]
    joined = form.time_of(halves[0][0] + halves[1][0], np.maximum(halves[0][1], halves[1][1]))

    whole = form.time(
        queries,
        keys,
        query_heads=shape.query_heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        kv_element_bytes=shape.kv_element_bytes,
    )
    for part in ("seconds", "compute_s", "memory_s", "link_s", "launch_s"):
        assert getattr(joined, part) == pytest.approx(getattr(whole, part), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@given(batch=batches, heads=st.sampled_from(HEADS))
def test_the_lean_seconds_are_those_of_the_whole_time(
    name: str, kind: str, batch: list[tuple[int, int]], heads: tuple[int, int, int]
) -> None:
    """`seconds_of` leaves out the parts and changes nothing."""
    form, numbers = curve(name, kind), np.array(batch, dtype=float)
    queries, keys = present_sequences(numbers[:, 0], numbers.sum(axis=1))

    sums, maxima = form.row_terms(queries, keys, shape_of(heads)).of_batch()

    expected = form.time_of(sums, maxima).seconds
    found = form.seconds_of(sums[:, None], maxima[:, None])
    assert found[0] == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("asked", [0.0, 1.0, 40.0])
def test_queries_that_stay_need_not_be_repeated(name: str, kind: str, asked: float) -> None:
    """One number of queries for all steps means the same as it at every step."""
    form, shape = curve(name, kind), shape_of(HEADS[0])
    keys = np.arange(40.0, 50.0)[None] * (asked > 0)

    once = form.row_terms(np.array([[asked]]), keys, shape)
    every = form.row_terms(np.full_like(keys, asked), keys, shape)

    assert once.sums.tolist() == every.sums.tolist()
    assert once.maxima.tolist() == every.maxima.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_costs_nothing(name: str) -> None:
    """A batch without a sequence takes no time, whatever its launch would."""
    form = curve(name, "attention_extend")
    nothing = form.time_of(np.zeros((form.N_SUMS, 3)), np.zeros((form.N_MAXIMA, 3)))

    assert nothing.seconds.tolist() == [0.0, 0.0, 0.0]
    assert nothing.launch_s.tolist() == [0.0, 0.0, 0.0]


def test_no_splitting_is_no_term() -> None:
    """A kernel that never splits along the keys adds nothing for long ones."""
    form = curve("h100-sxm", "attention_extend")
    assert isinstance(form, AttentionCurve)
    batch = [(1, 30_000), (3, 7)]
    whole = replace(form, split_s=0.0)

    numbers = np.array(batch, dtype=float)
    terms = whole.row_terms(
        *present_sequences(numbers[:, 0], numbers.sum(axis=1)), shape_of(HEADS[0])
    )

    assert float(whole.time_of(*terms.of_batch()).seconds) == pytest.approx(
        naive_s(whole, batch, HEADS[0]), rel=1e-12
    )


@given(first=times, second=times, power=st.sampled_from([1.0, 1.0588, 2.0, 5.3864, 15.9, 40.0]))
def test_the_quick_norm_is_the_norm(first: float, second: float, power: float) -> None:
    """Times need no scaling: the p-norm comes out the same without."""
    pair = np.array([first]), np.array([second])

    assert p_norm_of_times(*pair, power=power) == pytest.approx(
        p_norm(*pair, power=power), rel=1e-12, abs=0.0
    )
