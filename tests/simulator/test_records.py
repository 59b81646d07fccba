"""What the records of a run keep of the steps that they are told."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.records import BUFFER_STEPS, RequestRecord, RunRecords, StepRecord


def stretch(n_steps: int, seed: int) -> dict[str, Any]:
    """What `add_steps` takes for *n_steps*."""
    generator = np.random.default_rng(seed)
    return {
        "start_s": generator.uniform(0, 10, n_steps),
        "seconds": generator.exponential(0.01, n_steps),
        "batch_rows": generator.integers(9, 20, n_steps),
        "rows": generator.integers(1, 9, n_steps),
        "query_tokens": generator.integers(1, 99_999, n_steps),
        "emitted_tokens": generator.integers(0, 9, n_steps),
        "kv_used_bytes": generator.uniform(0, 1e9, n_steps),
        "forwards": int(generator.integers(1, 4)),
        "prefill": bool(generator.integers(2)),
        "replica": int(generator.integers(3)),
    }


def table(told: dict[str, Any]) -> list[StepRecord]:
    """The same as one record a step, written by hand."""
    return [
        StepRecord(
            start_s=float(told["start_s"][i]),
            seconds=float(told["seconds"][i]),
            prefill=told["prefill"],
            batch_rows=int(told["batch_rows"][i]),
            rows=int(told["rows"][i]),
            query_tokens=int(told["query_tokens"][i]),
            emitted_tokens=int(told["emitted_tokens"][i]),
            forwards=told["forwards"],
            kv_used_bytes=float(told["kv_used_bytes"][i]),
            replica=told["replica"],
        )
        for i in range(len(told["start_s"]))
    ]


@given(st.lists(st.integers(0, 40), max_size=8))
def test_steps_are_kept_in_the_order_told(lengths: list[int]) -> None:
    """Stretches of any length come back as one record a step."""
    told = [stretch(n_steps, seed) for seed, n_steps in enumerate(lengths)]
    records = RunRecords()
    for each in told:
        records.add_steps(**each)

    assert records.steps == [step for each in told for step in table(each)]


def test_a_long_stretch_is_kept_whole() -> None:
    """A stretch longer than what is gathered at a time loses nothing, nor does one before it."""
    told = [stretch(100, 1), stretch(2 * BUFFER_STEPS + 5, 2), stretch(3, 3)]
    records = RunRecords()
    for each in told:
        records.add_steps(**each)

    assert records.steps == [step for each in told for step in table(each)]


def test_arrays_may_be_used_again() -> None:
    """What was told is kept, whatever becomes of the arrays that told it."""
    records, told = RunRecords(), stretch(5, 4)
    records.add_steps(**told)
    expected = table(told)
    told["seconds"][:] = 9.0
    told["rows"] += 1

    assert records.steps == expected


def test_without_the_table_the_sums_are_the_same() -> None:
    """Leaving out the table of steps changes nothing else."""
    kept, dropped = RunRecords(), RunRecords(keep_steps=False)
    for seed in range(300):
        kept.add_steps(**stretch(37, seed))
        dropped.add_steps(**stretch(37, seed))

    assert len(kept.steps) == 300 * 37
    assert len(dropped.steps) == 0
    assert kept.step_latency_s.distribution() == dropped.step_latency_s.distribution()
    for name, sums in vars(kept.timeline.whole).items():
        assert sums.tolist() == vars(dropped.timeline.whole)[name].tolist()


def test_only_decode_steps_have_a_latency() -> None:
    """Prefill forwards are left out of the distribution of steps."""
    records = RunRecords()
    records.add_steps(**stretch(50, 1) | {"prefill": True})
    decode = stretch(9, 2) | {"prefill": False}
    records.add_steps(**decode)

    assert len(records.step_latency_s) == 9
    assert records.step_latency_s.total == pytest.approx(decode["seconds"].sum())


def test_requests_and_their_gaps() -> None:
    """A finished request is a record, and its gaps are among those of all."""
    records = RunRecords()
    made = [
        RequestRecord(i, 10, 20, i, i + 0.5, i + 1, i + 4, 1, 19, 19, 1, replica=i)
        for i in range(3)
    ]
    for record in made:
        records.add_request(record, np.array([1.0, 2.0]))

    assert records.requests == made
    assert records.requests.column("finished_s").tolist() == [4.0, 5.0, 6.0]
    assert len(records.emission_gaps_s) == 6
    assert records.emission_gaps_s.total == 9.0


def test_a_million_requests_take_a_hundred_megabytes() -> None:
    """A request takes less than a hundred bytes, its chunk's share included."""
    records = RunRecords()
    n_requests = 20_000
    for i in range(n_requests):
        records.requests.append(
            RequestRecord(i, 1024, 256, 0.1 * i, 0.1 * i, 0.1 * i, 0.1 * i, 1, 255, 255, 1)
        )

    kept = sum(array.nbytes for chunk in records.requests.chunks() for array in chunk.values())
    assert kept < 100 * n_requests
