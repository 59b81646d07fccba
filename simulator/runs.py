"""Runs: what many scenarios come to, each distinct one simulated once, spread over processes."""

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.result import run

# What a run says, or why there is none.
Summary = dict[str, Any] | str
KEPT = ("metrics", "interval", "time_shares", "warnings")
"""The parts of a run's summary that are kept."""


def summaries(
    scenarios: Sequence[tuple[str, dict[str, Any]]],
    *,
    workers: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> list[Summary]:
    """A summary for every (name, document) in order; equal documents share a run.

    *advance* is called once for each of them. With several *workers* the runs are spread over
    processes; what they say is the same.
    """
    keys = [json.dumps(document, sort_keys=True) for _, document in scenarios]
    first = dict(zip(reversed(keys), reversed(scenarios), strict=True))
    found: dict[str, Summary] = {}
    with _mapped(workers, first.values()) as answers:
        for key, summary in zip(first, answers, strict=True):
            found[key] = summary
            for _ in range(keys.count(key)):
                advance()
    return [found[key] for key in keys]


@contextmanager
def _mapped(
    workers: int, scenarios: Iterable[tuple[str, dict[str, Any]]]
) -> Iterator[Iterable[Summary]]:
    """The summaries of *scenarios* in their order, as they come."""
    if workers == 1:
        yield map(_summary, scenarios)
        return
    # Fresh processes: a fork would copy whatever threads the caller runs.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    with pool:
        yield pool.map(_summary, scenarios)


def _summary(scenario: tuple[str, dict[str, Any]]) -> Summary:
    """The kept parts of the run's summary, or why the scenario is refused."""
    name, document = scenario
    try:
        summary = run(build(document, name), keep_steps=False).summary
    except DocumentError as error:
        return "; ".join(mistake.what for mistake in error.mistakes)
    return {part: summary[part] for part in KEPT}
