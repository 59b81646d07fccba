"""Answers of tasks, collected."""

from simulator.execution.tasks import Lost, Tasks


def every_answer(tasks: Tasks[int, int, int]) -> dict[int, int | Lost]:
    """Answers by key; no key has two."""
    found: dict[int, int | Lost] = {}
    while len(tasks):
        key, answer = tasks.next_finished()
        assert key not in found
        found[key] = answer
    return found
