"""A session: traces first, then kernels, the empty model and the real one, round after round.

What else a machine does only ever adds time, for minutes on end; so everything is visited in every
round, and of each kernel and each forward the fastest visit counts.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

from kernels_ref.capture.run import capture
from kernels_ref.closed_loop.allocator import keep_freed_memory
from kernels_ref.closed_loop.cases import Case
from kernels_ref.closed_loop.cells import Sizes, Sweeps, stands
from kernels_ref.closed_loop.clocked import Run
from kernels_ref.closed_loop.device import now_s
from kernels_ref.closed_loop.profile import profile_of
from kernels_ref.closed_loop.quiet import Quiet, when_quiet
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.pass_shape import PassShape
from traces.reading import read_trace

Report = Callable[[float, str], None]
"""Told the share of the budget that is spent, and what is done."""
EMPTY_BATCHES: Final = (1, 4)
"""Beside the largest that is asked for."""
EMPTY_PROBLEMS: Final = 4


QUANTILES: Final = 16


class BudgetError(ValueError):
    """A budget that does not suffice for one visit of everything."""


@dataclass(frozen=True)
class Request:
    """What to measure, and for how long."""

    cases: Sequence[Case]
    batches: Sequence[int]
    problems: int
    """Prompts of a run, as many as its batch where that is more."""
    repeats: int
    budget_s: float
    folder: Path
    device: torch.device
    profile: Path | None = None
    """Of the kernels of this machine; made where there is none."""


@dataclass(frozen=True)
class Measured:
    """Plain data of one run."""

    case: str
    policy: str
    settings: Mapping[str, Any]
    batch: int
    is_empty: bool
    trace: Path
    shape: PassShape
    context_tokens: int
    batches_s: list[list[float]]
    """Of each batch, what comes before its first forward and then every forward."""
    latency_s: list[float]
    """Of each request, from its batch's beginning on."""
    whole_s: list[float]
    wall_s: list[float]


@dataclass(frozen=True)
class Outcome:
    """Profiles of the kernels, and every run."""

    profile: Path
    empty_profile: Path
    runs: list[Measured]
    rounds: int
    seconds: float


@dataclass
class _Session:
    request: Request
    report: Report
    started: float = field(default_factory=time.monotonic)

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.started

    def step(self, what: str) -> None:
        """Tell that *what* begins; BudgetError once the budget is spent."""
        share = self.spent_s / self.request.budget_s
        self.report(min(share, 1.0), what)


def measure(request: Request, report: Report = lambda _share, _what: None) -> Outcome:
    """Everything that a prediction and its comparison take.

    Raises BudgetError where time runs out within the first round, CaptureError where the folder has
    traces already, ValueError where no curves can be fitted.
    """
    keep_freed_memory()
    torch.set_num_threads(1)
    session = _Session(request, report)
    runs = list(_runs(session))
    real = _sweeps(request, runs, is_empty=False) if request.profile is None else []
    empty = _sweeps(request, runs, is_empty=True)
    rounds = _rounds(session, [*real, *empty], [run for run, *_ in runs])
    path, empty_path = request.profile, request.folder / "empty-model.yaml"
    if path is None:
        path = request.folder / "hardware.yaml"
        profile_of(real, request.device, path)
    profile_of(empty, request.device, empty_path)
    measured = [_told(request, each) for each in runs]
    return Outcome(path, empty_path, measured, rounds, session.spent_s)


Captured = tuple[Run, Case, bool]


def _runs(session: _Session) -> Iterator[Captured]:
    """Every run, its trace captured, which is also what warms up."""
    request = session.request
    for case in request.cases:
        for is_empty in (True, False):
            for batch in _batches(request, is_empty=is_empty):
                problems = max(EMPTY_PROBLEMS if is_empty else request.problems, batch)
                if is_empty and batch == 1:
                    problems = 2
                plan = case.plan(batch, problems, is_empty=is_empty)
                session.step(f"capturing {plan.name}")
                capture(plan, _trace(request, plan.name))
                yield Run(plan, partial(now_s, request.device)), case, is_empty


def _batches(request: Request, *, is_empty: bool) -> list[int]:
    if not is_empty:
        return sorted(set(request.batches))
    return sorted({*EMPTY_BATCHES, max(request.batches)})


def _trace(request: Request, name: str) -> Path:
    return request.folder / "traces" / name


def _sweeps(request: Request, runs: Sequence[Captured], *, is_empty: bool) -> list[Sweeps]:
    """The cells of every shape that the runs have, of the sizes in their traces."""
    found = []
    for run, _, of_empty in runs:
        if of_empty == is_empty:
            plan = run.plan
            sees = 1 if plan.source.prompt == "causal" else plan.block_tokens
            sizes = _sizes(_trace(request, plan.name), plan.batch)
            found.append((_model(run).decoder, sees, sizes))
    return [Sweeps(stand) for stand in stands(found)]


def _model(run: Run) -> ReferenceModel:
    model = run.plan.source.model
    if not isinstance(model, ReferenceModel):
        rule = f"{run.plan.source.name} drafts with layers of its own, which are not timed yet"
        raise TypeError(rule)
    return model


def _sizes(folder: Path, batch: int) -> Sizes:
    """Of the forwards in a trace, padding included."""
    steps = read_trace(folder).steps.to_pandas()
    padded = steps["padded_tokens" if "padded_tokens" in steps else "query_tokens"]
    is_prompt = steps["kind"] == "prefill"
    on = steps["adapter_tokens"] > 0 if "adapter_tokens" in steps else is_prompt & ~is_prompt
    return Sizes(
        rows=batch,
        queries=_asked(padded[~is_prompt & ~on], steps["query_tokens"][~is_prompt & ~on]),
        adapted=frozenset(padded[on].tolist()),
        prompt_tokens=int(padded[is_prompt].max()) if is_prompt.any() else 1,
        context_tokens=int((steps["prefix_tokens"] + padded).max()),
    )


def _asked(padded: "pd.Series[int]", asked: "pd.Series[int]") -> dict[int, tuple[int, ...]]:
    """For every number of queries, padding included, QUANTILES of those that are asked."""
    shares = (2 * np.arange(QUANTILES) + 1) / (2 * QUANTILES)
    return {
        int(count): tuple(np.quantile(mine, shares, method="nearest").astype(int).tolist())
        for count, mine in asked.groupby(padded)
    }


def _visits(
    sweeps: Sequence[Sweeps], runs: Sequence[Run], number: int
) -> list[Callable[[], object]]:
    """Everything once, in an order of this round's own.

    What slows a machine down comes and goes in minutes, and would else hit the same runs again.
    """
    visits: list[Callable[[], object]] = [
        partial(run.visit, batch) for run in runs for batch in range(run.n_batches)
    ]
    visits += [partial(each.visit, part) for each in sweeps for part in each.parts()]
    random.Random(number).shuffle(visits)  # noqa: S311 (an order)
    return visits


def _rounds(session: _Session, sweeps: Sequence[Sweeps], runs: Sequence[Run]) -> int:
    """Visit everything, as often as asked and as time allows; how often it was."""
    request, longest_s = session.request, 0.0
    quiet = Quiet(request.device)
    for done in range(request.repeats):
        began = session.spent_s
        if done and began + longest_s > request.budget_s:
            return done
        for visit in when_quiet(_visits(sweeps, runs, done), quiet):
            session.step(f"round {done + 1} of up to {request.repeats}")
            if not done and session.spent_s > request.budget_s:
                rule = (
                    f"one visit of everything takes longer than {request.budget_s:.0f} s; "
                    "a longer --budget, or fewer problems, batches or policies"
                )
                raise BudgetError(rule)
            visit()
        longest_s = max(longest_s, session.spent_s - began)
    return request.repeats


def _told(request: Request, captured: Captured) -> Measured:
    """What a prediction is made of, and what it is compared with."""
    run, case, is_empty = captured
    model = _model(run)
    return Measured(
        case=case.name,
        policy=case.policy,
        settings=dict(case.settings),
        batch=run.plan.batch,
        is_empty=is_empty,
        trace=_trace(request, run.plan.name),
        shape=model.decoder.shape,
        context_tokens=model.facts.context_tokens,
        batches_s=[[each.begin_s, *each.forward_s] for each in run.fastest],
        latency_s=[latency for each in run.fastest for latency in each.latency_s()],
        whole_s=list(run.whole_s),
        wall_s=list(run.wall_s),
    )
