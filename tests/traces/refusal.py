"""What a captured trace is refused for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from traces.captured_trace import CapturedTrace
from traces.reading import read_trace
from traces.trace_error import TraceError


def refused(folder: Path, read: Callable[[Path], CapturedTrace] = read_trace) -> list[str]:
    """The mistakes that the trace is refused for, a line each."""
    with pytest.raises(TraceError) as caught:
        read(folder)
    assert caught.value.origin == str(folder)
    lines = [str(mistake) for mistake in caught.value.mistakes]
    assert str(caught.value).splitlines() == [f"{folder}:", *(f"  {line}" for line in lines)]
    return lines


def the_one(found: list[str], words: str) -> str:
    """The only line that has these *words*."""
    told = [line for line in found if words in line]
    assert len(told) == 1, found
    return told[0]


def check_place(line: str, words: str) -> None:
    """A rule on rows names a file and a request in it, one on accuracy the manifest."""
    assert ("manifest.yaml" if words.startswith("accuracy") else ".parquet, request") in line
