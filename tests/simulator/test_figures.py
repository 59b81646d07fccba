"""Numbers as people read them: three figures, never an exponent, and a unit that fits."""

import pytest

from reports.units import figure, prefixed, seconds
from simulator.measure import Measure, window_of
from simulator.quantities import three_figures
from simulator.records import RequestRecord, RunRecords
from tests.simulator.test_steady_state import of_queue, queue


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (7.8449, "7.84"),
        (999.4, "999"),
        (999.6, "1000"),
        (1100.0, "1100"),
        (123456.7, "123457"),
        (-1100.0, "-1100"),
    ],
)
def test_three_figures_without_an_exponent(value: float, told: str) -> None:
    """Whole from a thousand on; 1.1e+03 is what nobody writes."""
    assert three_figures(value) == figure(value) == told


@pytest.mark.parametrize(
    ("value_s", "told"),
    [
        (0.9999, "1000 ms"),
        (119.0, "119 s"),
        (500.0, "8.33 min"),
        (7199.0, "120 min"),
        (7200.0, "2 h"),
        (4e6, "1111 h"),
    ],
)
def test_times_have_a_unit_that_fits(value_s: float, told: str) -> None:
    """Seconds up to two minutes, minutes up to two hours."""
    assert seconds(value_s) == told
    assert figure(None) == seconds(None) == "-"


def test_prefixes_end_somewhere() -> None:
    """A thousand of the largest prefix is not written with an exponent."""
    assert prefixed(2.5e18, "B") == "2500 PB"


def test_a_long_run_is_told_without_exponents() -> None:
    """A warm-up of 1,100 s, and a window that ends after two days."""
    records = RunRecords()
    for index in range(200):
        at = 1000.0 * index
        records.requests.append(RequestRecord(index, 9, 9, at, at, at + 1, at + 2, 1, 8, 8, 1))

    sentence = window_of(records, Measure(warm_up=1100.0), is_closed=False).sentence

    assert sentence.startswith("1100 s to 199000 s: warm-up of 1100 s (2 requests) left out")
    assert "e+" not in sentence


def test_served_less_than_offered_is_explained() -> None:
    """In one clause, where a steady run rounds to less; a queue of half a stay needs none."""
    found = [of_queue(queue(0.8, 10_000, seed)) for seed in range(20)]

    assert {each.state for each in found} == {"steady"}
    for each in found:
        offered, served = three_figures(each.offered_per_s), three_figures(each.served_per_s)
        is_less = float(served) < float(offered)
        assert ("under way when the window ended" in each.sentence) == is_less
    assert any("under way" in each.sentence for each in found)
