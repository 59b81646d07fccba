"""The estimate of the time left."""

from simulator.sweep.estimate import Lines


def test_a_line_now_and_then() -> None:
    """At most one in ten seconds, whose estimate is that of the pace since the start."""
    said: list[str] = []
    now_s = 0.0
    lines = Lines(total=1000, done=400, say=said.append, clock_s=lambda: now_s)
    for _ in range(100):
        now_s += 0.25
        lines.advance()
    # 40 points in 10 s after the 400 of before leave 560, at 4 a second; then 80 in 20 s.
    assert said == [
        "440 of 1000 points, about 2 min left",
        "480 of 1000 points, about 2 min left",
    ]


def test_none_when_all_are_done() -> None:
    """Nothing is said of a sweep that is over."""
    said: list[str] = []
    times = iter([0.0, 60.0])
    Lines(total=1, done=0, say=said.append, clock_s=lambda: next(times)).advance()
    assert said == []
