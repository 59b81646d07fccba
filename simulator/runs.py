"""Runs: what many scenarios come to, each distinct one simulated once, spread over processes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.execution.pool import pool_of
from simulator.execution.tasks import Lost, Tasks
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
    found: dict[str, Summary] = {}
    with pool_of(workers) as pool:
        tasks: Tasks[str, tuple[str, dict[str, Any]], Summary] = Tasks(pool, _summary)
        for key, scenario in dict(zip(reversed(keys), reversed(scenarios), strict=True)).items():
            tasks.add(key, scenario)
        while len(tasks):
            key, answer = tasks.next_finished()
            found[key] = answer.what if isinstance(answer, Lost) else answer
            for _ in range(keys.count(key)):
                advance()
    return [found[key] for key in keys]


def _summary(scenario: tuple[str, dict[str, Any]]) -> Summary:
    """The kept parts of the run's summary, or why the scenario is refused."""
    name, document = scenario
    try:
        summary = run(build(document, name), keep_steps=False).summary
    except DocumentError as error:
        return "; ".join(mistake.what for mistake in error.mistakes)
    return {part: summary[part] for part in KEPT}
