"""What a captured trace of iterations tells: tokens per step, and how far drafts are accepted."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from reports.terminal import BARS, MOST_ROWS, bar, left_out, table
from reports.units import percent

UNKNOWN = "-"


def header(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The iterations, and the forwards by kind."""
    kinds = ("prefill_forwards", "draft_forwards", "verify_forwards", "iterations")
    prefill, draft, verify, iterations = (trace["counts"][kind] for kind in kinds)
    cut = iterations - trace["derived"]["iterations_uncut"]
    yield "iterations", f"{iterations}, of which {cut} cut by the output's end"
    longest = max(len(trace["derived"]["iterations_by_accepted"]) - 1, 0)
    least = trace["guaranteed_tokens"]
    yield "an iteration", f"{longest} drafts in a row, {least} to {least + longest} tokens"
    yield "forwards", f"{prefill} prefill, {draft} drafting, {verify} verifying"


def tables(found: Mapping[str, Any]) -> Iterator[Table | str]:
    """Tokens per step and per forward, what iterations have in common, and acceptance."""
    yield table("Tokens", ("", ""), _tokens(found))
    yield table("Iterations that are not cut", ("", ""), _iterations(found))
    by_accepted = found["iterations_by_accepted"]
    columns = ("drafts", "at least these", BARS, "just these", "iterations")
    title = "Drafts accepted by iterations that are not cut"
    rows = _accepted(by_accepted, [1.0, *found["acceptance_by_position"]])
    yield table(title, columns, rows)
    yield from left_out(len(by_accepted), "numbers of drafts")


def _tokens(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    error = _number(found["tokens_per_step_standard_error"], 3)
    mean = _number(found["tokens_per_step"], 3)
    yield "per step, of those that the end did not cut", f"{mean}, standard error {error}"
    yield "per step, of all as before the cut", _number(found["tokens_per_step_with_cut"], 3)
    yield "per step, as the output kept them", _number(found["tokens_per_step_kept"], 3)
    yield "per forward, a drafter's too, no prefill", _number(found["tokens_per_forward"], 3)
    yield "drafts verified an output token", _number(found["verify_nodes_per_output_token"], 2)


def _iterations(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "no draft accepted", _share(found["none_accepted"])
    yield "all drafts accepted", _share(found["all_accepted"])
    yield "correlation of successive ones", _number(found["lag_1_correlation"], 3)
    yield "variance between requests (none below 0)", _share(found["intraclass_correlation"])


def _accepted(by_accepted: list[int], at_least: list[float]) -> Iterator[tuple[str, ...]]:
    total = sum(by_accepted)
    rows = list(zip(by_accepted, at_least[: len(by_accepted)], strict=True))
    for drafts, (iterations, share) in enumerate(rows[:MOST_ROWS]):
        just = percent(iterations / total)
        yield str(drafts), percent(share), bar(share), just, str(iterations)


def _number(value: float | None, decimals: int) -> str:
    return UNKNOWN if value is None else f"{value:.{decimals}f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)
