"""Sums over steps by time against sums over a plain table."""

import numpy as np
import pytest

from simulator.timeline import BINS, Timeline


def steps_of(n_steps: int, span_s: float, replicas: int = 1) -> dict[str, np.ndarray]:
    """Steps at random times, all numbers as floats."""
    generator = np.random.default_rng(n_steps)
    return {
        "start_s": generator.uniform(0, span_s, n_steps),
        "seconds": generator.exponential(0.01, n_steps),
        "prefill": (generator.random(n_steps) < 0.2).astype(float),
        "batch_rows": generator.integers(1, 65, n_steps).astype(float),
        "kv_used_bytes": generator.uniform(0, 1e10, n_steps),
        "emitted_tokens": generator.integers(0, 65, n_steps).astype(float),
        "forwards": generator.integers(1, 4, n_steps).astype(float),
        "replica": generator.integers(0, replicas, n_steps).astype(float),
    }


def timeline_of(steps: dict[str, np.ndarray], pieces: int = 5) -> Timeline:
    """A timeline that was told *steps* in so many pieces."""
    timeline = Timeline()
    for rows in np.array_split(np.arange(len(steps["start_s"])), pieces):
        timeline.add({name: column[rows] for name, column in steps.items()})
    return timeline


def summed(steps: dict[str, np.ndarray], chosen: np.ndarray, replica: int) -> list[float]:
    """The sums of the *chosen* steps of a replica, in the order of the fields of StepSums."""
    own = {name: column[chosen & (steps["replica"] == replica)] for name, column in steps.items()}
    seconds, prefill = own["seconds"], own["prefill"]
    return [
        seconds.sum(),
        seconds[prefill == 1].sum(),
        (seconds * own["batch_rows"]).sum(),
        (seconds * own["kv_used_bytes"]).sum(),
        own["emitted_tokens"].sum(),
        float((prefill == 0).sum()),
        own["forwards"].sum(),
        own["forwards"][prefill == 1].sum(),
    ]


@pytest.mark.parametrize("span_s", [0.01, 7.0, 50_000.0])
@pytest.mark.parametrize("replicas", [1, 3])
def test_all_sums_are_those_of_the_table(span_s: float, replicas: int) -> None:
    """Whole sums, by replica, are exact however long the run."""
    steps = steps_of(500, span_s, replicas)
    whole = timeline_of(steps).whole

    for replica in range(replicas):
        wanted = summed(steps, np.ones(500, dtype=bool), replica)
        assert [float(part[replica]) for part in vars(whole).values()] == pytest.approx(wanted)


def test_whole_seconds_cut_exactly() -> None:
    """From 2 s on and before 5 s: every step that starts there, none other."""
    steps = steps_of(4000, 9.0)
    sums = timeline_of(steps).between(2.0, 5.0)

    inside = (steps["start_s"] >= 2) & (steps["start_s"] < 5)
    wanted = summed(steps, inside, 0)
    assert [float(part[0]) for part in vars(sums).values()] == pytest.approx(wanted)


def test_other_cuts_are_off_by_a_bin() -> None:
    """A cut inside a bin takes its share of what is in it: off by a thousandth of the run."""
    steps = steps_of(200_000, 1000.0)
    sums = timeline_of(steps).between(123.456, 876.54)

    inside = (steps["start_s"] >= 123.456) & (steps["start_s"] < 876.54)
    error = abs(float(sums.steps[0]) - (inside & (steps["prefill"] == 0)).sum())
    assert error < 200_000 * 2 / (BINS / 2)


def test_sums_over_everything_are_the_whole() -> None:
    """Bounds beyond the run change nothing."""
    timeline = timeline_of(steps_of(300, 40.0, 2))

    beyond, whole = timeline.between(-10.0, 1e9), timeline.whole
    for name, values in vars(whole).items():
        assert vars(beyond)[name] == pytest.approx(values), name


def test_an_empty_timeline_sums_to_zero() -> None:
    """Before any step all sums are zero."""
    assert all(values.sum() == 0 for values in vars(Timeline().whole).values())
