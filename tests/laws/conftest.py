"""Reads each shipped file and prepares each schema once, so that many scenarios can be drawn."""

import functools
from collections.abc import Iterator

import pytest
from pydantic import TypeAdapter

from simulator import documents, library

_read_once = functools.cache(library.Shelf.get)
_prepared_once = functools.cache(TypeAdapter)


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Iterator[None]:
    """Building a scenario is mostly parsing YAML and schemas; the laws build hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.Shelf, "get", lambda shelf, name: _read_once(shelf, name))
        patch.setattr(documents, "TypeAdapter", _prepared_once)
        yield
