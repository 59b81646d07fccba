"""The rules that the rows of every captured trace keep, whatever it records."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from traces.captured import CapturedManifest
from traces.checked_table import LARGEST, CheckedTable
from traces.columns import FINISH_REASONS, IntArray
from traces.record_form import M, Mistakes, RecordForm, T
from traces.table_schema import number_columns
from traces.total_rules import total_mistakes


def contradictions(form: RecordForm[M, T], manifest: M, tables: Mapping[str, pa.Table]) -> Mistakes:
    """Every rule that is broken by tables whose columns are right, with the first row of each."""
    checked = {
        name: CheckedTable(name, manifest.tables[name].file, table)
        for name, table in tables.items()
    }
    requests = checked["requests"]
    belonging = [table for name, table in checked.items() if name != "requests"]
    owners = {t.name: _owner_of(requests["request"], t["request"]) for t in belonging}
    for name, table in checked.items():
        for column in form.counted[name]:
            yield from table.between(column, 0, LARGEST, "a count")
    yield from _requests(requests, manifest)
    for table in belonging:
        yield from table.broken(owners[table.name] < 0, "its request is not among the requests")
        yield from _numbering(table)
    yield from form.mistakes(manifest, checked, owners)
    yield from total_mistakes(form, manifest, checked, owners)


def _owner_of(requests: IntArray, of_rows: IntArray) -> IntArray:
    """The row of *requests* that each of *of_rows* names, -1 where none has that number."""
    order = np.argsort(requests, kind="stable")
    found = np.searchsorted(requests, of_rows, sorter=order)
    row = order[np.minimum(found, len(order) - 1)]
    return np.where(requests[row] == of_rows, row, -1)


def _requests(requests: CheckedTable, manifest: CapturedManifest) -> Mistakes:
    for column in ("request", "problem", "batch"):
        yield from requests.between(column, 0, LARGEST, "a count")
    number = requests["request"]
    back = np.concatenate([[False], number[1:] <= number[:-1]])
    yield from requests.broken(back, "requests are there once, in the order of their numbers")
    limit, batch = manifest.output_limit_tokens, manifest.batch
    yield from requests.between("prompt_tokens", 1, LARGEST, "a prompt has tokens")
    yield from requests.between("output_tokens", 0, limit, "the output limit")
    yield from requests.equal("output_tokens", requests.lengths("output"), "is the output's length")
    yield from requests.between("row", 0, batch - 1, f"for a batch has {batch} rows")
    places = requests["batch"] * batch + requests["row"]
    first = np.unique(places, return_index=True)[1]
    again = ~np.isin(np.arange(len(places)), first)
    yield from requests.broken(again, "a row of a batch is one request's, got a second one's")
    yield from requests.spelled("finish_reason", FINISH_REASONS)


def _numbering(table: CheckedTable) -> Mistakes:
    """Rows are grouped by request, and within one they count from 0."""
    request = table["request"]
    starts = np.flatnonzero(np.diff(request, prepend=request[:1] - 1))
    counted = np.arange(len(table)) - np.repeat(starts, np.diff(starts, append=len(table)))
    yield from table.equal(
        number_columns(table.name)[-1], counted, "counts from 0 within a request"
    )
    back = np.diff(request, prepend=request[:1]) < 0
    yield from table.broken(back, "rows are in the order of their requests")
