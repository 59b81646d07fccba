"""BatchTotals: the totals of a step's passes, padded as an engine pads them, and their cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cost import OpCost
from simulator.deployment import Deployment
from simulator.schedule import MOVED, N_LOADS, IntArray, Pass
from simulator.step_cost import last_target_pass, slots_over_tokens
from simulator.total_price import TOTALS, TotalPrice

FloatArray = npt.NDArray[np.float64]


class StepTotals(NamedTuple):
    """Sums over the rows of a batch at some steps."""

    rows: FloatArray
    """[steps]."""
    loads: FloatArray
    """[passes x 6, steps]."""
    live_rows: FloatArray
    """[passes, steps], where an engine makes all rows as wide as the widest; else [0, steps]."""
    widest_tokens: FloatArray
    """The same of the longest query."""
    chunks: FloatArray | None = None
    """[6, steps]: loads of prompts that share the last launch of the target."""


@dataclass(frozen=True)
class _Lookup:
    """Which totals are looked up: *k* of the passes' loads."""

    rows: IntArray | slice
    """[k] rows of StepTotals.loads."""
    passes: IntArray
    loads: IntArray
    columns: IntArray
    """[k, 1] of the TotalPrice."""
    by_pass: FloatArray
    """[passes, k]: which pass pays."""
    moved: IntArray
    """Those of the k that are moved tokens, which are never padded."""


class BatchTotals:
    """Prices all of a step's passes but their attention.

    Loads that cost something are looked up from when they are first noticed, so that those which a
    policy never has take no time.
    """

    def __init__(self, deployment: Deployment, passes: Sequence[Pass], *, prefill: bool) -> None:
        """Of a step of *passes*, whose loads do not matter."""
        self._passes = tuple(passes)
        self._price = TotalPrice(deployment, [p.stack for p in passes])
        self._pads_rows = deployment.engine.row_layout == "padded"
        self._graphs = None if prefill else _graph_padding(deployment)
        costly = [
            (index, which)
            for index, step_pass in enumerate(passes)
            for which in TOTALS
            if self._price.column(step_pass.stack, which) is not None
        ]
        self._all = self._lookup(costly)
        self._asleep = np.array([_row(*kind) for kind in costly], dtype=np.intp)
        self._awake = self._lookup([])

    def _lookup(self, kinds: Sequence[tuple[int, int]]) -> _Lookup:
        rows = np.array([_row(*kind) for kind in kinds], dtype=np.intp)
        passes, loads = np.divmod(rows, N_LOADS)
        columns = [self._price.column(self._passes[p].stack, which) for p, which in kinds]
        by_pass = (passes == np.arange(len(self._passes))[:, None]).astype(float)
        return _Lookup(
            rows=_as_slice(rows),
            passes=passes,
            loads=loads,
            columns=np.array(columns, dtype=np.int64).reshape(-1, 1),
            by_pass=by_pass,
            moved=np.flatnonzero(loads == MOVED),
        )

    def notice(self, loads: FloatArray) -> None:
        """*loads*, [passes x 6, steps], are met with from now on."""
        if not len(self._asleep) or not np.count_nonzero(loads[self._asleep]):
            return
        woken = loads[self._asleep].any(axis=1)
        self._awake = self._lookup_of(self._awake, self._asleep[woken])
        self._asleep = self._asleep[~woken]

    def notice_chunks(self, loads: FloatArray) -> None:
        """*loads*, [6, steps], of chunks of prompts are met with from now on."""
        of_passes = np.zeros((len(self._passes), *loads.shape))
        of_passes[last_target_pass(self._passes)] = loads
        self.notice(of_passes.reshape(-1, loads.shape[1]))

    def _lookup_of(self, known: _Lookup, more: IntArray) -> _Lookup:
        rows = np.union1d(known.passes * N_LOADS + known.loads, more)
        return self._lookup([divmod(row, N_LOADS) for row in rows.tolist()])

    def launch_seconds(self, totals: StepTotals) -> FloatArray:
        """Seconds of one launch of every pass, [passes, steps]."""
        lookup = self._awake
        padding = self._padding(totals)
        if padding is None:
            asked = self._asked(lookup, totals, None)
            seconds = self._price.whole(lookup.columns, asked.astype(np.int64))
        else:
            asked = self._asked(lookup, totals, padding)
            seconds = self._price.padded(lookup.columns, asked)
        launch_s: FloatArray = lookup.by_pass.dot(seconds)
        return launch_s

    def costs(self, totals: StepTotals) -> Iterator[tuple[int, OpCost, FloatArray]]:
        """(index of the pass, cost in one launch at some totals, steps at each of them)."""
        asked = self._asked(self._all, totals, self._padding(totals))
        for index, which, each in zip(self._all.passes, self._all.loads, asked, strict=True):
            distinct, times = np.unique(each[each > 0], return_counts=True)
            if len(distinct):
                for cost in self._price.costs(self._passes[index].stack, int(which), distinct):
                    yield int(index), cost, times.astype(float)

    def _asked(self, lookup: _Lookup, totals: StepTotals, padding: FloatArray | None) -> FloatArray:
        """[k, steps]: the totals that are looked up, padded by *padding* [passes or 1, steps]."""
        asked = totals.loads[lookup.rows]
        if padding is not None:
            padded = asked * (padding if len(padding) == 1 else padding[lookup.passes])
            padded[lookup.moved] = asked[lookup.moved]
            asked = padded
        if totals.chunks is not None:
            chunked = lookup.passes == last_target_pass(self._passes)
            asked = asked + chunked[:, None] * totals.chunks[lookup.loads]
        return asked

    def _padding(self, totals: StepTotals) -> FloatArray | None:
        """[passes or 1, steps] to multiply totals with, None where none are padded."""
        graphs = None if totals.chunks is not None else self._graphs
        padding: FloatArray | None = None
        if graphs is not None:
            padding = graphs.take(totals.rows.astype(np.int64), mode="clip")[None]
        if self._pads_rows:
            tokens = totals.loads[::N_LOADS]
            padded = slots_over_tokens(tokens, totals.live_rows, totals.widest_tokens)
            padding = padded if padding is None else padded * padding
        return padding


def _row(pass_index: int, which: int) -> int:
    return pass_index * N_LOADS + which


def _as_slice(rows: IntArray) -> IntArray | slice:
    """*rows* as a slice where they are evenly spaced: a view is quicker than a copy."""
    strides = np.unique(np.diff(rows))
    if len(rows) == 0 or len(strides) > 1:
        return rows
    stride = int(strides[0]) if len(strides) else 1
    return slice(int(rows[0]), int(rows[-1]) + 1, stride)


def _graph_padding(deployment: Deployment) -> FloatArray | None:
    """Rows computed over rows, by rows; the last, 1, holds for all batches without a graph."""
    engine = deployment.engine
    if not engine.graph_batches:
        return None
    sizes = np.sort(engine.graph_batches)
    rows = np.arange(1, sizes[-1] + 1)
    padded = sizes[np.searchsorted(sizes, rows)] / rows
    return np.concatenate(([1.0], padded, [1.0]))
