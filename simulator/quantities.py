"""Spans of time and amounts of memory as people write them on a command line."""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, ByteSize, TypeAdapter, ValidationError

from simulator.documents import DocumentError, Mistake, shown

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
MOST_S = 1e12
# Larger numbers with three figures would round to this or beyond.
LEAST_WHOLE = 999.5
_SPAN = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|h)\s*")


def _span_s(text: str) -> float:
    """Seconds of a number with a unit; zero where *text* is none."""
    match = _SPAN.fullmatch(text)
    return float(match[1]) * SECONDS[match[2]] if match else 0.0


def seconds_of(value: object) -> float:
    """Seconds of a number of them, or of a text such as 90s or 30ms; raises ValueError."""
    seconds = _span_s(value) if isinstance(value, str) else 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) if value < MOST_S else math.inf
    if not 0 < seconds < MOST_S:
        message = (
            "a time is a number of seconds above zero, or one with ms, s, m or h, as 30ms, got "
            f"{shown(value)}"
        )
        raise ValueError(message)
    return seconds


def three_figures(value: float) -> str:
    """*value* with three significant figures, or all of its whole ones; never as 1.1e+03."""
    return f"{value:.3g}" if abs(value) < LEAST_WHOLE else f"{value:.0f}"


Seconds = Annotated[float, BeforeValidator(seconds_of)]
"""A field of a document for a span of time."""


def time_span_s(option: str, text: str) -> float:
    """Seconds of 90s, 8m or 1.5h; raises DocumentError naming *option*."""
    seconds = _span_s(text)
    if not 0 < seconds < math.inf:
        what = f"a time is a number above zero with ms, s, m or h, as 90s or 8m, got {shown(text)}"
        raise DocumentError(option, [Mistake("", what)])
    return seconds


def byte_size(option: str, text: str) -> float:
    """Bytes of 500MB or 2GiB; raises DocumentError naming *option*."""
    try:
        size = float(TypeAdapter(ByteSize).validate_python(text))
    except (ValidationError, OverflowError):
        size = 0.0
    if size <= 0:
        what = f"memory is a number above zero with a unit, as 500MB or 2GiB, got {shown(text)}"
        raise DocumentError(option, [Mistake("", what)])
    return size
