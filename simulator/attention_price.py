"""AttentionPrice: the attention of a step's passes, from sums and maxima over the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwprofiles.curves import AttentionCurve, AttentionTableCurve
from hwprofiles.curves.attention import HeadShape
from simulator.cost import OpCost, cost_of, curve_of, price
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad, elementwise
from simulator.schedule import CONTEXT, N_LOADS, QUERY, Pass
from simulator.work import kernel_keys, pass_ops

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PassAttention:
    """Kernels of one pass that do the same: layers of equal attention."""

    pass_index: int
    op: Op
    """Stands for all of them; only its sizes per row are missing."""
    shape: HeadShape
    window_tokens: int | None
    more_context_tokens: int
    """What a mean launch of the pass finds beyond the first."""

    def queries_and_keys(
        self, loads: FloatArray, *, prefill: bool
    ) -> tuple[FloatArray, FloatArray]:
        """As the curve takes them, of loads [passes, 6, rows, steps]; 0 where a row is absent."""
        query, context = loads[self.pass_index, QUERY], loads[self.pass_index, CONTEXT]
        if self.more_context_tokens:
            context = context + self.more_context_tokens
        keys = kernel_keys(query, context, self.window_tokens, prefill=prefill)
        if prefill and self.window_tokens:
            keys = np.maximum(keys, query)
        first = query[:, :1]
        if query.shape[1] > 1 and not np.count_nonzero(query != first):
            # Most rows ask for as much at every step, which is then worked out once.
            query = first
        return query, keys * (query > 0)


class AttentionPrice:
    """One curve prices all of it: the kernels are of one data type, decoding or prefilling.

    Sums are the curve's, [N_SUMS x kernels], then bytes of cache that are copied, [kernels] where
    an engine does; maxima are the curve's, [N_MAXIMA x kernels].
    """

    def __init__(self, deployment: Deployment, passes: Sequence[Pass], *, prefill: bool) -> None:
        """Of a step of *passes*, whose loads do not matter; raises MissingKernelError."""
        self._deployment, self._prefill = deployment, prefill
        self.kernels = list(_kernels(deployment, passes, prefill=prefill))
        self._curve: AttentionCurve | AttentionTableCurve
        self._curve = curve_of(deployment.hardware, self.kernels[0].op)
        self._copies = 0.0 if prefill else deployment.placement.kv_traffic_factor - 1.0
        kernels = len(self.kernels)
        self._split = self._curve.N_SUMS * kernels
        self.n_sums = self._split + (kernels if self._copies else 0)
        self.n_maxima = self._curve.N_MAXIMA * kernels
        self.counts = np.zeros((len(passes), kernels))
        """[passes, kernels]: layers of each kernel in one launch of each pass."""
        for index, kernel in enumerate(self.kernels):
            self.counts[kernel.pass_index, index] = kernel.op.count

    def add_up(self, loads: FloatArray, sums: FloatArray, maxima: FloatArray) -> None:
        """Write the terms of *loads* [passes, 6, rows, steps], over the rows, into the others.

        *sums* is [n_sums, steps] and *maxima* [n_maxima, steps].
        """
        n_kernels, curve = len(self.kernels), self._curve
        by_kernel = sums[: self._split].reshape(curve.N_SUMS, n_kernels, sums.shape[1])
        largest = maxima.reshape(curve.N_MAXIMA, n_kernels, sums.shape[1])
        for index, kernel in enumerate(self.kernels):
            query, keys = kernel.queries_and_keys(loads, prefill=self._prefill)
            terms = curve.row_terms(query, keys, kernel.shape)
            if len(query) == 1:
                by_kernel[:, index], largest[:, index] = terms.sums[:, 0], terms.maxima[:, 0]
            else:
                by_kernel[:, index], largest[:, index] = terms.of_batch()
            if self._copies:
                copied = self._copies * kernel.shape.token_bytes
                sums[self._split + index] = copied * keys.sum(axis=0)

    def seconds(self, sums: FloatArray, maxima: FloatArray) -> FloatArray:
        """Seconds of one layer's kernels, [kernels, steps]."""
        own, largest, copied = self._shared_out(sums, maxima)
        seconds = self._curve.seconds_of(own, largest)
        if self._copies:
            elementwise_curve = self._deployment.hardware.kernels.elementwise
            seconds = seconds + elementwise_curve.time(copied).seconds
        return seconds

    def costs(self, sums: FloatArray, maxima: FloatArray) -> Iterator[tuple[int, OpCost]]:
        """(index of the pass, cost in one launch of it) of every kernel."""
        own, largest, copied = self._shared_out(sums, maxima)
        for index, kernel in enumerate(self.kernels):
            time = self._curve.time_of(own[:, index], largest[:, index])
            yield kernel.pass_index, cost_of(kernel.op, time, sums.shape[1:])
            if self._copies:
                op = elementwise("kv copies", kernel.op.count, copied[index])
                yield kernel.pass_index, price(self._deployment.hardware, [op])[0]

    def _shared_out(
        self, sums: FloatArray, maxima: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The curve's sums and maxima, [..., kernels, steps], and copied bytes."""
        n_kernels, curve = len(self.kernels), self._curve
        own = sums[: self._split].reshape(curve.N_SUMS, n_kernels, sums.shape[1])
        return own, maxima.reshape(curve.N_MAXIMA, n_kernels, sums.shape[1]), sums[self._split :]


def _kernels(
    deployment: Deployment, passes: Sequence[Pass], *, prefill: bool
) -> Iterator[PassAttention]:
    """The attention of every pass; layers of equal attention are one kernel, run more often."""
    nothing = np.zeros((N_LOADS, 1, 1), dtype=np.int64)
    for pass_index, step_pass in enumerate(passes):
        stack = deployment.stack(step_pass.stack)
        ops = pass_ops(stack, StepLoad(nothing, prefill=prefill), deployment.placement)
        own = [op for op in ops if op.name == "attention"]
        more = int(step_pass.mean_loads(nothing)[CONTEXT, 0, 0])
        found: dict[tuple[HeadShape, int | None], PassAttention] = {}
        for group, op in zip(stack.layers, own, strict=True):
            key = _head_shape(op), group.attention.window_tokens
            known = found.get(key)
            counted = replace(op, count=op.count + (known.op.count if known else 0))
            found[key] = PassAttention(pass_index, counted, *key, more)
        yield from found.values()


def _head_shape(op: Op) -> HeadShape:
    sizes = ("query_heads", "kv_heads", "head_dim", "kv_element_bytes")
    query_heads, kv_heads, head_dim, element_bytes = (float(op.inputs[size]) for size in sizes)
    return HeadShape(query_heads, kv_heads, int(head_dim), element_bytes)
