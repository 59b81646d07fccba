"""Objectives: what is written is what is meant, and every rule that can be broken is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.documents import DocumentError
from simulator.plan.objective import Objective, objectives_of

TIMES_OF_REQUESTS = ["ttft", "tpot", "latency", "queueing"]
LIMITS = st.floats(1e-6, 1e6)
LEVELS = st.integers(1, 99).map(str) | st.sampled_from(["99.9", "0.5", "99.99"])


def mistakes_in(*options: str) -> dict[str, str]:
    """What is told of each option that is wrong."""
    with pytest.raises(DocumentError) as caught:
        objectives_of(options)
    assert caught.value.origin == "--slo"
    return {mistake.where: mistake.what for mistake in caught.value.mistakes}


@given(
    metric=st.sampled_from(TIMES_OF_REQUESTS),
    statistic=LEVELS.map(lambda level: f"p{level}") | st.just("mean"),
    limit=LIMITS,
    sign=st.sampled_from(["=", "<=", "<", " <= "]),
    ending=st.sampled_from(["", "_s"]),
)
def test_times_are_read_as_written(
    metric: str, statistic: str, limit: float, sign: str, ending: str
) -> None:
    """Any percentile or mean of a time, in plain seconds, with or without the column's unit."""
    (found,) = objectives_of([f"{metric}_{statistic}{ending}{sign}{limit!r}"])

    assert found == Objective(metric, statistic, limit)
    assert found.name == f"{metric}_{statistic}"
    assert objectives_of([f"{found.name}={found.limit!r}"]) == (found,)
    assert found.is_time
    assert not found.is_floor


@given(
    metric=st.sampled_from(["output_tokens_per_s", "requests_per_s", "goodput"]),
    share=st.floats(1e-6, 1.0),
    sign=st.sampled_from(["=", ">=", ">"]),
)
def test_floors_are_read_as_written(metric: str, share: float, sign: str) -> None:
    """Goodput and rates have a least, a plain number."""
    (found,) = objectives_of([f"{metric}{sign}{share!r}"])

    assert found == Objective(metric, "", share)
    assert found.is_floor


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30ms", 0.03), ("1s", 1.0), ("1.5m", 90.0), ("0.5h", 1800.0), ("2", 2.0), ("1e-3", 1e-3)],
)
def test_units_of_time(text: str, seconds: float) -> None:
    """Seconds by hand: a number of them, or ms, s, m and h."""
    (found,) = objectives_of([f"ttft_p99={text}"])

    assert found.limit == pytest.approx(seconds, rel=1e-12)


def test_shares_may_be_percentages() -> None:
    """99 % is 0.99, for what has a least and for what has a most."""
    assert [each.limit for each in objectives_of(["goodput>=99%", "kv_used_share<=80%"])] == [
        0.99,
        0.8,
    ]


def test_margins_are_shares_of_the_limit() -> None:
    """By hand: 0.75 s of 1 s leave a quarter; goodput of 0.9 misses 0.8 by minus an eighth."""
    most, least = objectives_of(["ttft_p50=1s", "goodput>=0.8"])

    assert most.margin(0.75) == pytest.approx(0.25)
    assert most.margin(1.5) == pytest.approx(-0.5)
    assert least.margin(0.9) == pytest.approx(0.125)
    assert least.margin(0.4) == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("ttfp_p99=1s", "did you mean ttft_p99"),
        ("goodputs>=0.9", "did you mean goodput"),
        ("ttft=1s", "say which: ttft_p50, ttft_p99, any percentile, or ttft_mean"),
        ("ttft_s=1s", "say which: ttft_p50"),
        ("goodput_p99>=0.9", "goodput is one number of a run and has no p99"),
        ("kv_used_share_mean<=0.9", "has no mean"),
        ("ttft_p0=1s", "a percentile is above 0 and below 100"),
        ("ttft_p100=1s", "a percentile is above 0 and below 100"),
        ("ttft_p-1=1s", "an objective is written"),
        ("ttft_pabc=1s", "got pabc"),
        ("ttft_pnan=1s", "got pnan"),
        ("ttft_pinf=1s", "got pinf"),
        ("ttft_p=1s", "got p"),
        ("ttft_max=1s", "no objective 'ttft_max'"),
        ("inter_token_p99.9=1s", "inter_token has p50, p90, p95, p99 and mean, got p99.9"),
        ("step_latency_p75=1s", "step_latency has p50"),
        ("ttft_p99>=1s", "ttft_p99 has a most; write <="),
        ("ttft_p99>1s", "write <="),
        ("goodput<=0.9", "goodput has a least; write >="),
        ("requests_per_s<5", "write >="),
        ("ttft_p99=1parsec", "with ms, s, m or h"),
        ("ttft_p99=30 us", "with ms, s, m or h"),
        ("ttft_p99=0", "above zero"),
        ("ttft_p99=-1", "above zero"),
        ("ttft_p99=-1s", "above zero"),
        ("ttft_p99=nan", "above zero"),
        ("ttft_p99=inf", "above zero"),
        ("ttft_p99=1e400", "above zero"),
        ("goodput>=1.01", "a share is at most 1"),
        ("goodput>=99", "a share is at most 1"),
        ("goodput>=101%", "a share is at most 1"),
        ("goodput>=0", "a number above zero"),
        ("goodput>=nan", "a number above zero"),
        ("goodput>=%", "a number above zero"),
        ("goodput>=most", "or a percentage is needed, got 'most'"),
        ("requests_per_s>=inf", "a number above zero is needed"),
        ("requests_per_s>=50%", "a number above zero is needed"),
        ("ttft_p99", "an objective is written"),
        ("ttft_p99=", "an objective is written"),
        ("=1s", "an objective is written"),
        ("", "an objective is written"),
        ("ttft_p99=>1s", "with ms, s, m or h"),
        ("tt ft_p99=1s", "an objective is written"),
    ],
)
def test_every_rule_broken_once(option: str, told: str) -> None:
    """What is written is quoted, and the rule is said."""
    found = mistakes_in(option)

    assert list(found) == [repr(option)]
    assert told in found[repr(option)]


def test_all_mistakes_are_told_at_once() -> None:
    """Four that are wrong, each in its own way, beside one that is right."""
    found = mistakes_in("ttfb_p99=1s", "tpot_p99=30ms", "ttft_p100=1s", "goodput<=1", "tpot_p99=1s")

    assert list(found) == ["'ttfb_p99=1s'", "'ttft_p100=1s'", "'goodput<=1'", "'tpot_p99=1s'"]
    assert found["'tpot_p99=1s'"] == "tpot_p99 is given twice"


@given(st.text(max_size=30))
def test_any_text_is_an_objective_or_a_mistake(text: str) -> None:
    """Nothing else comes of it, whatever is written."""
    try:
        (found,) = objectives_of([text])
    except DocumentError as error:
        assert len(error.mistakes) == 1
    else:
        assert 0 < found.limit < float("inf")
