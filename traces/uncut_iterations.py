"""UncutIterations: those iterations of a trace that the end of the output did not shorten."""

from dataclasses import dataclass

import numpy as np

from traces.columns import IntArray, flags, numbers
from traces.iteration_trace import IterationTrace
from traces.survival import FloatArray


@dataclass(frozen=True, eq=False)
class UncutIterations:
    """What was drafted and accepted, [iterations], in the order of the trace.

    Long iterations are cut more often than short ones, so what is left accepts a little less than
    the decoder does: about variance / mean / iterations of a request, in tokens per step.
    """

    request: IntArray
    drafted: IntArray
    """The longest path of drafts."""
    nodes: IntArray
    """All drafts that were verified; as many as drafted in a chain."""
    accepted: IntArray

    def __len__(self) -> int:
        """Iterations."""
        return len(self.accepted)

    @property
    def has_trees(self) -> bool:
        """Whether any iteration verified more than one path."""
        return bool((self.nodes != self.drafted).any())

    @property
    def most_drafted(self) -> int:
        """The longest path of drafts, 0 without any."""
        return int(self.drafted.max(initial=0))

    @property
    def mean_accepted(self) -> float | None:
        """Mean accepted drafts; None without iterations."""
        return float(self.accepted.mean()) if len(self) else None

    @property
    def histogram(self) -> IntArray:
        """Iterations that accepted 0 .. n drafts, n the longest path."""
        return np.bincount(self.accepted, minlength=self.most_drafted + 1)

    @property
    def survival(self) -> FloatArray:
        """S_1 .. S_n: the share of iterations that accepted j drafts or more; sums to the mean."""
        reached = np.cumsum(self.histogram[::-1])[::-1][1:]
        return np.asarray(reached / max(len(self), 1), dtype=np.float64)


def uncut_iterations(trace: IterationTrace) -> UncutIterations:
    """The iterations of *trace* that are not cut."""
    whole = ~flags(trace.iterations, "cut")
    columns = ("request", "drafted", "nodes", "accepted")
    return UncutIterations(*(numbers(trace.iterations, name)[whole] for name in columns))
