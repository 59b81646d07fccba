"""The first place at which a replay that should be exact is not what was captured."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from simulator.replay.block_record import KIND, BlockTables
from simulator.schedule import IntArray
from traces.block_tables import LOCAL_LISTS
from traces.block_trace import BlockTrace
from traces.columns import among, entries, lengths, numbers

LIFE: Final = ("admitted", "finished", "retired")


def difference(trace: BlockTrace, tables: BlockTables) -> str | None:
    """What *tables* have otherwise than *trace*, with its place; None for nothing."""
    return next(_differences(trace, tables), None)


def _differences(trace: BlockTrace, tables: BlockTables) -> Iterator[str]:
    n_local = np.diff(tables.first_local)
    yield from _in_rows(trace.steps, "step", _kinds(trace) | _columns(trace.steps), tables.steps)
    blocks = _columns(trace.blocks, *LIFE) | {"local steps": lengths(trace.blocks, "masked")}
    yield from _in_rows(trace.blocks, "block", blocks, {**tables.blocks, "local steps": n_local})
    of = np.repeat(np.arange(trace.blocks.num_rows), lengths(trace.blocks, "masked"))
    local = {name: entries(trace.blocks, name) for name in LOCAL_LISTS}
    yield from _in_rows(trace.blocks.take(of), "block", local, tables.local_steps)


def _kinds(trace: BlockTrace) -> dict[str, IntArray]:
    places = (place * among(trace.steps, "kind", kind) for kind, place in KIND.items())
    return {"kind": np.sum(list(places), axis=0)}


def _columns(table: pa.Table, *names: str) -> dict[str, IntArray]:
    """Columns of whole numbers, all but the kind and the numbers of rows where none is named."""
    others = [name for name in table.column_names if name not in {"request", "step", "kind"}]
    return {name: numbers(table, name) for name in names or others}


def _in_rows(
    table: pa.Table, number: str, captured: Mapping[str, IntArray], found: Mapping[str, IntArray]
) -> Iterator[str]:
    """The first row of *table* in which a column is *found* otherwise."""
    for name, values in captured.items():
        other = found[name]
        if len(other) != len(values):
            yield f"{len(values)} rows of {name} captured, {len(other)} replayed"
            continue
        wrong = np.flatnonzero(other != values)
        if len(wrong):
            row = int(wrong[0])
            place = f"request {table['request'][row]} {number} {table[number][row]}"
            yield f"{place}: {name} {values[row]} captured, {other[row]} replayed"
