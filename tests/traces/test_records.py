"""The kinds of records: each has the interface, by its name alone."""

import importlib

import pytest

from traces.captured import CapturedManifest
from traces.captured_trace import CapturedTrace
from traces.records import names, records
from traces.table_schema import number_columns


def test_the_kinds_that_there_are() -> None:
    """One module each."""
    assert names() == ["blocks", "iterations"]


@pytest.mark.parametrize("name", names())
def test_a_kind_has_the_interface(name: str) -> None:
    """A form, whose parts fit one another, statistics, and what the terminal shows."""
    module = records(name)
    form = module.FORM
    assert module.__doc__
    assert issubclass(form.manifest, CapturedManifest)
    assert issubclass(form.trace, CapturedTrace)
    assert tuple(form.schemas) == form.manifest.TABLES == tuple(form.counted)
    assert set(form.forwards) <= set(form.schemas["requests"].names) & set(form.counts)
    for table, schema in form.schemas.items():
        assert set(number_columns(table)) | set(form.counted[table]) <= set(schema.names)
    assert callable(module.summary)
    text = importlib.import_module(f"reports.trace_{name}")
    assert callable(text.header)
    assert callable(text.tables)


def test_numbers_tell_rows_apart() -> None:
    """A request by itself, all else within its request."""
    assert number_columns("requests") == ("request",)
    assert number_columns("iterations") == ("request", "iteration")
