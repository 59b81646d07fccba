"""Reads each shipped file once, so that many scenarios can be drawn."""

import functools
from collections.abc import Iterator

import pytest

from simulator import library

_read_once = functools.cache(library.Shelf.get)


@pytest.fixture(scope="module", autouse=True)
def _shelves_are_read_once() -> Iterator[None]:
    """Building a scenario is mostly parsing YAML; the laws build hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.Shelf, "get", lambda shelf, name: _read_once(shelf, name))
        yield
