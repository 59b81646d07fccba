"""What a result says of a load from a file: its source and everything that was changed."""

import math
from collections.abc import Iterator

from simulator.load.request_source import RequestSource, clipping_notes
from traces.requests.selection import Selection
from traces.requests.survey import Survey


def trace_notes(source: RequestSource, found: Survey) -> tuple[str, ...]:
    """One sentence each: the requests and their rate, then window, number, rate, lengths, order."""
    selection = source.selection
    lengths = clipping_notes(found, selection.most_prompt_tokens, selection.most_output_tokens)
    order = [f"rows out of order, sorted: {found.moved_rows}"] if found.moved_rows else []
    taken = f"requests of {source.file.path} (format {found.format}): {_load(found)}"
    return (taken, *_window(selection, found), *_rate(selection), *lengths, *order)


def _load(found: Survey) -> str:
    if found.n_requests == 1:
        return "1"
    if found.span_s == 0:
        return f"{found.n_requests}, all at one instant"
    # Of n requests there are n - 1 gaps.
    rate = (found.n_requests - 1) / found.span_s
    return f"{found.n_requests} in {found.span_s:.6g} s, {rate:.4g} per s"


def _window(selection: Selection, found: Survey) -> Iterator[str]:
    if selection.from_s or math.isfinite(selection.until_s):
        end = f"to {selection.until_s:g} s" if math.isfinite(selection.until_s) else "on"
        window = f"window of the file's time: {selection.from_s:g} s {end}"
        yield f"{window} (rows before it: {found.early_rows}; rows after it are not read)"
    if selection.most_requests is not None:
        yield f"at most the first {selection.most_requests} of them"


def _rate(selection: Selection) -> Iterator[str]:
    if selection.rate_scale != 1:
        yield f"arrivals at {selection.rate_scale:g} times the file's rate"
