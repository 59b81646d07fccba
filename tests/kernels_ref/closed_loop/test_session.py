"""Runs with a clock, and sessions that visit everything."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kernels_ref.closed_loop import cases as cases_module  # noqa: E402
from kernels_ref.closed_loop import session  # noqa: E402
from kernels_ref.closed_loop.cases import cases, known_policies  # noqa: E402
from kernels_ref.closed_loop.clocked import BatchTimes, Run, clocked_batch  # noqa: E402
from kernels_ref.closed_loop.quiet import when_quiet  # noqa: E402
from kernels_ref.closed_loop.session import BudgetError, Request, measure  # noqa: E402
from traces.reading import read_trace  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a few tokens, and one batch of the empty model."""
    monkeypatch.setattr(session, "EMPTY_BATCHES", (2,))
    monkeypatch.setattr(cases_module, "OUTPUT_TOKENS", 20)
    monkeypatch.setattr(cases_module, "EMPTY_OUTPUT_TOKENS", 6)


def request_of(folder: Path, **changes: Any) -> Request:
    """One policy at one batch."""
    given: dict[str, Any] = {
        "cases": cases(["ar"], CPU),
        "batches": [2],
        "problems": 2,
        "repeats": 1,
        "budget_s": 300.0,
        "folder": folder,
        "device": CPU,
    }
    return Request(**given | changes)


def ticking() -> Any:
    """A clock that goes on by one second a look."""
    ticks = count()
    return lambda: float(next(ticks))


@pytest.mark.parametrize("policy", known_policies())
def test_every_forward_is_clocked(policy: str, tmp_path: Path) -> None:
    """As many as the trace of the same plan has; every request is over with one of them."""
    from kernels_ref.capture.run import capture

    plan = cases([policy], CPU)[0].plan(2, 2, is_empty=False)
    manifest = capture(plan, tmp_path / "trace")
    times = clocked_batch(plan, range(2), ticking())

    assert times.begin_s == 1
    assert times.forward_s == (1.0,) * manifest.counts.batch_forwards
    assert max(times.last_forward) == len(times.forward_s) - 1
    assert times.seconds == 1 + len(times.forward_s)
    assert times.latency_s() == [2.0 + last for last in times.last_forward]


def test_the_fastest_of_two_repeats_forward_by_forward() -> None:
    """By hand."""
    first, second = BatchTimes(3, (1, 5), (1,)), BatchTimes(2, (2, 4), (1,))

    assert first.fastest(second) == BatchTimes(2, (1, 4), (1,))
    with pytest.raises(ValueError, match="zip"):
        first.fastest(BatchTimes(2, (2,), (0,)))


def test_a_run_keeps_its_repeats() -> None:
    """The last batch is what is left of the prompts."""
    run = Run(cases(["ar"], CPU)[0].plan(2, 3, is_empty=True), ticking())
    for batch in (0, 1, 1, 0):
        run.visit(batch)

    assert run.n_batches == 2
    assert len(run.fastest) == 2
    assert [len(each.last_forward) for each in run.fastest] == [2, 1]
    assert len(run.whole_s) == len(run.wall_s) == 2


def test_visits_wait_for_a_quiet_moment_but_not_for_ever() -> None:
    """One at a noisy time goes last; where it is never quiet all are taken in the end."""
    assert list(when_quiet("abc", iter([False, True, True]).__next__)) == ["b", "c", "a"]
    assert sorted(when_quiet("abc", lambda: False)) == ["a", "b", "c"]


def test_an_empty_model_decodes_as_the_real_one() -> None:
    """Same vocabulary, context and policies, whatever it says."""
    for case in cases([], CPU):
        real, empty = (case.plan(1, 1, is_empty=flag).source.model for flag in (False, True))
        assert real.facts == empty.facts


def test_a_session_leaves_profiles_traces_and_times(tmp_path: Path) -> None:
    """One round of one policy: everything that a prediction takes."""
    outcome = measure(request_of(tmp_path))

    assert outcome.rounds == 1
    assert outcome.profile.is_file()
    assert outcome.empty_profile.is_file()
    assert [(run.is_empty, run.batch) for run in outcome.runs] == [
        (True, 2),
        (False, 2),
    ]
    for run in outcome.runs:
        found = read_trace(run.trace).manifest
        forwards = sum(len(batch) - 1 for batch in run.batches_s)
        assert forwards == found.counts.batch_forwards
        assert all(seconds > 0 for batch in run.batches_s for seconds in batch)
        assert len(run.latency_s) == found.counts.requests


def test_a_budget_that_is_too_short(tmp_path: Path) -> None:
    """It is refused by its name, before anything is fitted."""
    with pytest.raises(BudgetError, match="one visit of everything takes longer than 0 s"):
        measure(request_of(tmp_path, budget_s=1e-3))
