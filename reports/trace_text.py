"""A captured trace for the terminal: how fast it decoded, how, and where it is from.

What only one kind of records has is told by the module of that kind, `trace_RECORDS.py`: `header`,
what it counts, and `tables`, what it found.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

from rich.table import Table

from reports.terminal import console, pairs, table
from reports.units import percent


class TraceText(Protocol):
    """The interface of a module that tells of one kind of records."""

    def header(self, trace: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """What the trace counts, by name."""

    def tables(self, found: Mapping[str, Any]) -> Iterable[Table | str]:
        """The statistics, and what there is to say between them."""


def print_trace(trace: Mapping[str, Any]) -> None:
    """What decoded, tokens per forward, what else the records tell, accuracy, and provenance."""
    out, found = console(), trace["derived"]
    kind = cast("TraceText", importlib.import_module(f"reports.trace_{trace['records']}"))
    out.print(f"{trace['name']}: {trace['description']}", soft_wrap=True)
    out.print(pairs([*_header(trace), *kind.header(trace), _batches(trace["counts"])]))
    out.print()
    for part in kind.tables(found):
        out.print(part)
    out.print(table("Accuracy", ("", ""), _accuracy(found)))
    out.print("Parameters", style="bold")
    out.print(pairs((name, _value(value)) for name, value in trace["parameters"].items()))
    out.print("\nProvenance", style="bold")
    out.print(pairs(_provenance(trace)))
    if trace["warnings"]:
        out.print("\nWarnings", style="bold")
        out.print(pairs((str(n), text) for n, text in enumerate(trace["warnings"], 1)))


def _header(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    counts, asked = trace["counts"], trace["requests_asked"]
    yield "policy", f"{trace['policy']}, block {trace['block_tokens']}"
    yield "task", trace["task"]
    if trace["partial"]:
        yield "partial", f"a snapshot: {counts['requests']} of {asked} requests"
    yield "requests", f"{counts['requests']} in batches of {trace['batch']}"
    limit = trace["output_limit_tokens"]
    yield "output", f"{counts['output_tokens']} tokens, at most {limit} a request"


def _batches(counts: Mapping[str, Any]) -> tuple[str, str]:
    """Forwards over whole batches."""
    prefilled = counts["batch_prefill_forwards"]
    return "of batches", f"{counts['batch_forwards']}, of which {prefilled} prefilled"


def _accuracy(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found["accuracy"] is None:
        yield "correct", "not checked"
    else:
        error = percent(found["accuracy_standard_error"])
        yield "correct", f"{percent(found['accuracy'])}, standard error {error}"
    if found["valid"] is not None:
        error = percent(found["valid_standard_error"])
        yield "valid in every sentence", f"{percent(found['valid'])}, standard error {error}"


def _provenance(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    checkpoint, target = trace["checkpoint"], trace.get("target")
    trained = f"trained for block {checkpoint['trained_block_tokens']}"
    yield "checkpoint", f"{checkpoint['name']}, {trained}"
    yield "SHA-256", checkpoint["sha256"]
    if target is not None:
        yield "target", target["name"]
        yield "SHA-256", target["sha256"]
    yield "seed", str(trace["seed"])
    yield "batch", str(trace["batch"])
    yield "data type", trace["dtype"]
    yield from trace["software"].items()


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
