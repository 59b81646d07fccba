"""Lets scenarios be built quickly."""

from collections.abc import Iterator

import pytest

from tests.strategies import files_read_once


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Iterator[None]:
    with files_read_once():
        yield
