"""BatchPrice: what steps cost, from sums and maxima over the rows of the batch.

A row's terms are computed once, when it joins, and added up with those of the others; many steps of
the batch are then priced together, without looking at rows again. `step_cost.price_steps` is the
definition, which this equals to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.attention_price import AttentionPrice
from simulator.batch_totals import BatchTotals, StepTotals
from simulator.cost import OpCost
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.schedule import ADAPTER, CONTEXT, LOGITS, N_LOADS, QUERY, IntArray, Pass
from simulator.step_cost import (
    CostAccount,
    OverheadRates,
    account_name,
    last_target_pass,
    ops_of,
)

FloatArray = npt.NDArray[np.float64]

ROWS, LIVE_ROWS, QUERY_TOKENS, EMITTED_TOKENS, EMITTING_ROWS, KV_BYTES = range(6)
"""First rows of the sums: rows, those with queries, query tokens of all passes, tokens that come
out, rows that emit, and cache, which whoever holds the ledger fills in."""
N_COMMON: Final = 6

ACCOUNTED_STEPS: Final = 8192
"""Steps accounted for together, which bounds the memory that it takes."""


@dataclass(frozen=True)
class Terms:
    """What rows add to a batch, step by step: sums are added, of maxima the largest holds."""

    sums: FloatArray
    """[n_sums, steps]."""
    maxima: FloatArray
    """[n_maxima, steps]."""


class BatchPrice:
    """Prices the steps of a batch whose rows all have the same passes.

    Sums are the common ones, the six loads of every pass, the rows with queries of every pass where
    an engine pads rows, and those of the attention; maxima are the longest query of every pass
    where rows are padded, and those of the attention. They must come from `terms` of this object.
    """

    def __init__(
        self, deployment: Deployment, passes: Sequence[Pass], *, prefill: bool = False
    ) -> None:
        """Of steps of *passes*, whose loads do not matter; raises MissingKernelError."""
        self._deployment, self._passes, self._prefill = deployment, tuple(passes), prefill
        self._attention = AttentionPrice(deployment, passes, prefill=prefill)
        self._totals = BatchTotals(deployment, passes, prefill=prefill)
        padded = len(passes) if deployment.engine.row_layout == "padded" else 0
        ends = np.cumsum([N_COMMON, N_LOADS * len(passes), padded, self._attention.n_sums])
        loads, live, attention, end = ends.tolist()
        self._load_sums, self._live_sums = slice(loads, live), slice(live, attention)
        self._attention_sums = slice(attention, end)
        self.n_sums = int(end)
        """Rows of the sums of `terms`."""
        self._widest_maxima = slice(padded)
        self.n_maxima = padded + self._attention.n_maxima
        """Rows of the maxima of `terms`."""
        self._attention_maxima = slice(padded, self.n_maxima)
        self._launches = np.array([float(p.launches) for p in passes])
        self._host_pass_s = deployment.engine.overhead.host_pass_s
        self._step_s, self._overhead_by_sum = self._overheads()

    def _overheads(self) -> tuple[float, FloatArray | None]:
        """Seconds of a step, and of one of each sum and of each load of chunks."""
        rates = OverheadRates.of(self._deployment, self._passes)
        by_sum = np.zeros(self.n_sums + N_LOADS)
        by_sum[LIVE_ROWS], by_sum[EMITTING_ROWS] = rates.live_row_s, rates.emitting_row_s
        by_sum[self._load_sums][LOGITS::N_LOADS] = rates.logit_s
        if rates.logit_s.any():
            by_sum[self.n_sums + LOGITS] = rates.logit_s[self._chunk_pass]
        return rates.step_s, by_sum if by_sum.any() else None

    @cached_property
    def forwards(self) -> int:
        """Launches of passes in a step."""
        return sum(p.launches for p in self._passes)

    def terms(self, loads: IntArray, emitted_tokens: IntArray | None) -> Terms:
        """Terms of rows that take *loads* [passes, 6, rows, steps], added up over the rows.

        *emitted_tokens*, [rows, steps], are what comes out of them; None for nothing.
        """
        numbers = loads.astype(float)
        n_passes, _, n_rows, n_steps = loads.shape
        sums, maxima = np.zeros((self.n_sums, n_steps)), np.zeros((self.n_maxima, n_steps))
        totals = numbers[:, :, 0] if n_rows == 1 else np.add.reduce(numbers, axis=2)
        by_load = totals.reshape(-1, n_steps)
        self._totals.notice(by_load)
        query = numbers[:, QUERY]
        longest = query[0] if n_passes == 1 else np.maximum.reduce(query, axis=0)
        sums[ROWS] = n_rows
        sums[LIVE_ROWS] = longest[0] > 0 if n_rows == 1 else np.add.reduce(longest > 0, axis=0)
        sums[QUERY_TOKENS] = totals[0, QUERY] if n_passes == 1 else totals[:, QUERY].sum(axis=0)
        if emitted_tokens is not None:
            emitting = emitted_tokens > 0
            sums[EMITTED_TOKENS] = emitted_tokens[0] if n_rows == 1 else emitted_tokens.sum(axis=0)
            sums[EMITTING_ROWS] = emitting[0] if n_rows == 1 else emitting.sum(axis=0)
        sums[self._load_sums] = by_load
        if self._widest_maxima.stop:
            sums[self._live_sums] = (query > 0).sum(axis=1)
            maxima[self._widest_maxima] = query.max(axis=1)
        self._attention.add_up(numbers, sums[self._attention_sums], maxima[self._attention_maxima])
        return Terms(sums, maxima)

    def prompt_terms(self, loads: IntArray, emitting: int) -> Terms:
        """Terms of *loads* [passes, 6, rows, steps] of which *emitting* rows emit at every step."""
        terms = self.terms(loads, None)
        terms.sums[EMITTING_ROWS] = emitting
        return terms

    def mixed_terms(
        self, sums: FloatArray, maxima: FloatArray, chunks: IntArray, emitting: int
    ) -> Terms:
        """The one step of *sums* and *maxima*, [.., 1], with *chunks* [6, chunks] of prompts in it.

        *emitting* is how many of them emit. There are more rows than in `terms`, by which `seconds`
        and `account` know such steps: loads of the chunks, and terms of their attention.
        """
        attention, loads_end = self._chunk_attention, self.n_sums + N_LOADS
        mixed = np.zeros((loads_end + attention.n_sums, 1))
        largest = np.zeros((self.n_maxima + attention.n_maxima, 1))
        mixed[: self.n_sums], largest[: self.n_maxima] = sums, maxima
        numbers = chunks[None, :, :, None].astype(float)
        totals = mixed[self.n_sums : loads_end]
        totals[:, 0] = numbers[0, :, :, 0].sum(axis=1)
        self._totals.notice_chunks(totals)
        mixed[ROWS] += chunks.shape[1]
        mixed[LIVE_ROWS] += np.count_nonzero(chunks[QUERY])
        mixed[QUERY_TOKENS] += totals[QUERY]
        mixed[EMITTING_ROWS] += emitting
        attention.add_up(numbers, mixed[loads_end:], largest[self.n_maxima :])
        return Terms(mixed, largest)

    @cached_property
    def _chunk_pass(self) -> int:
        return last_target_pass(self._passes)

    @cached_property
    def _chunk_attention(self) -> AttentionPrice:
        return AttentionPrice(self._deployment, [self._passes[self._chunk_pass]], prefill=True)

    def seconds(self, sums: FloatArray, maxima: FloatArray) -> FloatArray:
        """Seconds of each step, [steps], of sums and maxima [.., steps] of its terms."""
        launch_s = self._launch_seconds(sums, maxima)
        if self._host_pass_s:
            launch_s = np.maximum(launch_s, self._host_pass_s)
        seconds: FloatArray = self._launches.dot(launch_s)
        return seconds + self._overhead_seconds(sums)

    def _overhead_seconds(self, sums: FloatArray) -> float | FloatArray:
        """Seconds that no kernel and no waiting for the host accounts for, [steps] or one."""
        if self._overhead_by_sum is None:
            return self._step_s
        counted = sums[: len(self._overhead_by_sum)]
        seconds: FloatArray = self._overhead_by_sum[: len(counted)].dot(counted)
        return self._step_s + seconds

    def _launch_seconds(self, sums: FloatArray, maxima: FloatArray) -> FloatArray:
        """Seconds of one launch of every pass, [passes, steps]."""
        launch_s = self._totals.launch_seconds(self._step_totals(sums, maxima))
        own = self._attention.seconds(sums[self._attention_sums], maxima[self._attention_maxima])
        launch_s += self._attention.counts.dot(own)
        if self._is_mixed(sums):
            attention = self._chunk_attention
            chunks = attention.seconds(sums[self.n_sums + N_LOADS :], maxima[self.n_maxima :])
            launch_s[self._chunk_pass] += attention.counts[0].dot(chunks)
        return launch_s

    def _is_mixed(self, sums: FloatArray) -> bool:
        return len(sums) > self.n_sums

    def _step_totals(self, sums: FloatArray, maxima: FloatArray) -> StepTotals:
        chunks = sums[self.n_sums : self.n_sums + N_LOADS] if self._is_mixed(sums) else None
        return StepTotals(
            sums[ROWS],
            sums[self._load_sums],
            sums[self._live_sums],
            maxima[self._widest_maxima],
            chunks,
        )

    def account(self, account: CostAccount, sums: FloatArray, maxima: FloatArray) -> None:
        """Account for steps of sums and maxima [.., steps], as for those of `price_steps`."""
        for start in range(0, sums.shape[1], ACCOUNTED_STEPS):
            steps = slice(start, start + ACCOUNTED_STEPS)
            self._account(account, sums[:, steps], maxima[:, steps])

    def _account(self, account: CostAccount, sums: FloatArray, maxima: FloatArray) -> None:
        totals = self._step_totals(sums, maxima)
        if not self._prefill:
            # Of a mixed step one row at least is a chunk of a prompt.
            rows = sums[LIVE_ROWS] - self._is_mixed(sums)
            context = totals.loads[CONTEXT::N_LOADS]
            account.sizes.meet_batches((rows.min(), rows.max()), float(context.max()))
        names = self._names(mixed=self._is_mixed(sums))
        for index, name in enumerate(names):
            account.meet(name, self._ops(index, totals))
        for index, cost, times in self._totals.costs(totals):
            self._add(account, names, index, cost, times)
        own = sums[self._attention_sums], maxima[self._attention_maxima]
        for index, cost in self._attention.costs(*own):
            self._add(account, names, index, cost, 1.0)
        if self._is_mixed(sums):
            chunks = sums[self.n_sums + N_LOADS :], maxima[self.n_maxima :]
            for _, cost in self._chunk_attention.costs(*chunks):
                named = replace(cost, op=replace(cost.op, name="prefill attention"))
                self._add(account, names, self._chunk_pass, named, 1.0)
        self._account_seconds(account, sums, maxima)

    def _account_seconds(self, account: CostAccount, sums: FloatArray, maxima: FloatArray) -> None:
        """The total, and what the engine adds to the kernels."""
        launch_s = self._launch_seconds(sums, maxima)
        idle_s = self._launches.dot(np.maximum(self._host_pass_s - launch_s, 0.0))
        added = np.broadcast_to(self._overhead_seconds(sums), idle_s.shape) + idle_s
        account.total_s += float((self._launches.dot(launch_s) + added).sum())
        account.add_overhead(float(added.sum()))

    def _names(self, *, mixed: bool) -> list[str]:
        """Of the passes, by which they are accounted for."""
        chunked = self._chunk_pass if mixed else None
        return [
            account_name(step_pass, mixed=index == chunked)
            for index, step_pass in enumerate(self._passes)
        ]

    def _add(
        self,
        account: CostAccount,
        names: Sequence[str],
        index: int,
        cost: OpCost,
        times: float | FloatArray,
    ) -> None:
        account.add_part(names[index], cost, self._passes[index].launches * times)

    def _ops(self, index: int, totals: StepTotals) -> list[Op]:
        """The operations of a pass, of no load; an adapter where a token passed it."""
        step_pass, nothing = self._passes[index], np.zeros((N_LOADS, 1, 1), dtype=np.int64)
        load = nothing.copy()
        load[ADAPTER] = totals.loads[index * N_LOADS + ADAPTER].any()
        chunks = None
        if totals.chunks is not None and index == self._chunk_pass:
            load[ADAPTER] |= totals.chunks[ADAPTER].any()
            chunks = nothing
        step = StepLoad(load, self._prefill, chunks=chunks)
        return ops_of(self._deployment, step_pass, step)
