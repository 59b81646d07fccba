"""The rules that the rows of a trace of iterations keep beyond those of every trace."""

from types import MappingProxyType
from typing import Final

import numpy as np

from traces.checked_table import LARGEST, CheckedTable, sums_by
from traces.columns import BoolArray, IntArray
from traces.iteration_manifest import IterationManifest
from traces.iteration_tables import KINDS
from traces.record_form import Mistakes, Owners, Tables

COUNTED: Final = MappingProxyType(
    {
        "requests": ("draft_forwards", "verify_forwards"),
        "iterations": ("prefix_tokens",),
        "steps": ("prefix_tokens", "feature_tokens", "moved_tokens"),
    }
)
"""Columns that are counts or numbers and have no narrower rule."""
# More than any column of whole numbers spans, and their numbers of rows times it are exact.
SPAN = 2**32


def iteration_mistakes(manifest: IterationManifest, tables: Tables, owners: Owners) -> Mistakes:
    """Every rule that is broken; *owners* are the rows of requests that other rows belong to."""
    requests, iterations, steps = tables["requests"], tables["iterations"], tables["steps"]
    n_iterations = sums_by(owners["iterations"], np.ones(len(iterations)), len(requests))
    yield from _requests(requests, n_iterations)
    yield from _iterations(iterations, manifest.guaranteed_tokens)
    yield from _emitted(requests, iterations, owners["iterations"])
    yield from _steps(steps)
    of_step = np.where(owners["steps"] < 0, 0, n_iterations[owners["steps"]])
    yield from _iterations_of_steps(steps, of_step)
    yield from _verified_once(tables, owners)
    yield from _verifications(tables, owners, manifest.guaranteed_tokens)


def _requests(requests: CheckedTable, n_iterations: IntArray) -> Mistakes:
    yield from requests.between("prefill_forwards", 1, LARGEST, "for its first token is sampled")
    yield from requests.equal("iterations", n_iterations, "is the number of its rows")


def _iterations(iterations: CheckedTable, guaranteed_tokens: int) -> Mistakes:
    drafted, accepted, emitted = (iterations[name] for name in ("drafted", "accepted", "emitted"))
    yield from iterations.between("drafted", 0, LARGEST, "a count")
    yield from iterations.between("nodes", drafted, LARGEST, "a path that is drafted and more")
    yield from iterations.between("accepted", 0, drafted, "what is drafted")
    most = accepted + guaranteed_tokens
    yield from iterations.between("emitted", 1, most, "accepted and guaranteed tokens")
    cut = iterations.flags("cut")
    yield from iterations.broken(
        cut != (emitted < most), "an iteration is cut where it emits fewer than it may, else not"
    )
    yield from iterations.broken(
        cut & ~_is_last(iterations["request"]), "only the last iteration of a request is cut"
    )


def _emitted(requests: CheckedTable, iterations: CheckedTable, owner: IntArray) -> Mistakes:
    """The prefill's token and what iterations emit are the output, and its end token if any."""
    emitted = iterations["emitted"]
    found = sums_by(owner, emitted, len(requests)) + 1 - requests.among("finish_reason", "end")
    rule = "is 1 and what its iterations emit, without an end token"
    yield from requests.equal("output_tokens", found, rule)
    begins = np.where(owner < 0, 0, requests["prompt_tokens"][owner])
    goes_on = np.roll(iterations["prefix_tokens"] + emitted, 1)
    wanted = np.where(_is_first(iterations["request"]), begins, goes_on)
    yield from iterations.equal("prefix_tokens", wanted, "is the prompt and what was emitted")


def _steps(steps: CheckedTable) -> Mistakes:
    yield from steps.spelled("kind", KINDS)
    yield from steps.between("query_tokens", 1, LARGEST, "a forward has tokens")
    for name in ("logit_rows", "adapter_tokens"):
        yield from steps.between(name, 0, steps["query_tokens"], "the query tokens")


def _iterations_of_steps(steps: CheckedTable, n_iterations: IntArray) -> Mistakes:
    """Prefills, then iteration by iteration, the verification last; *n_iterations* by step."""
    iteration, request = steps["iteration"], steps["request"]
    rule = "an iteration of the request, -1 for a prefill"
    yield from steps.between("iteration", -1, n_iterations - 1, rule)
    prefill = steps.among("kind", "prefill")
    yield from steps.broken(
        prefill != (iteration == -1), "a prefill is of iteration -1, and nothing else is"
    )
    before = np.roll(iteration, 1)
    later = ~_is_first(request)
    yield from steps.broken(
        later & (iteration < before), "steps are in the order of their iterations"
    )
    verified = np.roll(steps.among("kind", "verify"), 1)
    yield from steps.broken(
        later & verified & (iteration == before), "a verification is the last step of its iteration"
    )


def _verified_once(tables: Tables, owners: Owners) -> Mistakes:
    """Every iteration has one step that verifies."""
    iterations, steps = tables["iterations"], tables["steps"]
    verified = steps.among("kind", "verify") & (owners["steps"] >= 0)
    place = owners["iterations"] * SPAN + iterations["iteration"]
    of_steps = (owners["steps"] * SPAN + steps["iteration"])[verified]
    ordered = np.sort(of_steps)
    times = np.searchsorted(ordered, place, "right") - np.searchsorted(ordered, place, "left")
    if (times != 1).any():
        rule = f"an iteration is verified by 1 step, got {times[np.argmax(times != 1)]}"
        yield from iterations.broken(times != 1, rule)


def _verifications(tables: Tables, owners: Owners, guaranteed_tokens: int) -> Mistakes:
    """What a verification takes is what its iteration says, where each has one."""
    iterations, steps = tables["iterations"], tables["steps"]
    verified = steps.among("kind", "verify")
    of_steps = (owners["steps"] * SPAN + steps["iteration"])[verified]
    if not np.array_equal(of_steps, owners["iterations"] * SPAN + iterations["iteration"]):
        return

    def told(column: str, verifies: IntArray) -> IntArray:
        """*column* of steps as it must be: *verifies* in verifications, as it is elsewhere."""
        wanted = steps[column].copy()
        wanted[verified] = verifies
        return wanted

    rule = "of a verification is its nodes and the token before them"
    yield from steps.equal("query_tokens", told("query_tokens", iterations["nodes"] + 1), rule)
    stored = iterations["prefix_tokens"] + guaranteed_tokens - 1
    rule = "of a verification is what is stored before its iteration, and what the draft adds"
    yield from steps.equal("prefix_tokens", told("prefix_tokens", stored), rule)
    moved = np.zeros_like(steps["moved_tokens"])
    moved[verified] = iterations["emitted"]
    yield from steps.between("moved_tokens", 0, moved, "what a verification keeps")
    taken = np.where(steps.among("kind", "draft"), LARGEST, 0)
    yield from steps.between("feature_tokens", 0, taken, "a draft takes them in")


def _is_first(request: IntArray) -> BoolArray:
    """Where another request begins, [rows]."""
    return np.asarray(np.diff(request, prepend=request[:1] - 1), dtype=np.bool_)


def _is_last(request: IntArray) -> BoolArray:
    """Where a request ends, [rows]."""
    return np.asarray(np.diff(request, append=request[-1:] - 1), dtype=np.bool_)
