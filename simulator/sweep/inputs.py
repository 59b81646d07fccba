"""Inputs: the files that a sweep's scenarios name, each with a digest of what is in it."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from simulator.documents import DocumentError, Mistake
from simulator.library import ENGINES, HARDWARE, MODELS, TRACES, Shelf

SHELVES: Final[Mapping[str, Shelf]] = {
    "model": MODELS,
    "hardware": HARDWARE,
    "engine": ENGINES,
    "decode.trace": TRACES,
}
FILES: Final = ("workload.file", "workload.lengths")
NAMING: Final = (*SHELVES, *FILES)
"""Fields whose value names a file or a folder."""


def digests(named: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """SHA-256 by `field: name` of what *named* names by field; raises DocumentError.

    What is not there, or no name of ours, is `absent`: its points say so themselves.
    """
    return {
        f"{field}: {name}": _digest(field, name) for field, names in named.items() for name in names
    }


def digest_of(value: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(value.encode()).hexdigest()


def _digest(field: str, name: str) -> str:
    path = _path(field, name)
    if path is None or not path.is_file():
        return "absent"
    # A trace is a folder of tables beside its manifest.
    is_alone = field not in SHELVES or SHELVES[field] is not TRACES
    files = [path] if is_alone else sorted(each for each in path.parent.iterdir() if each.is_file())
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode() + b"\0" + _content_digest(file))
    return total.hexdigest()


def _path(field: str, name: str) -> Path | None:
    if field in FILES:
        return Path(name)
    try:
        return SHELVES[field].path(name)
    except DocumentError:
        return None


def _content_digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise DocumentError(str(path), [Mistake("", what)]) from error
