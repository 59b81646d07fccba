"""SizesMet: the extreme sizes at which a run asked its kernels, whichever request made them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from simulator.cost import OpCost
from simulator.ops import Op

Chunks = tuple[tuple[int, int, int], ...]
"""Pieces of prompts in one forward: tokens, those in the cache before, output tokens."""
OpKey = tuple[str, str, str, tuple[tuple[str, float | str], ...]]
Ranges = dict[str, tuple[float, float]]

BY_SEQUENCE: Final = ("attention_extend", "attention_prefill")
"""Kernels whose inputs are of every sequence; their extremes follow from whole batches."""


@dataclass
class SizesMet:
    """Ranges of what kernels were asked for, and the extreme forwards over prompts."""

    by_op: dict[OpKey, tuple[Op, Ranges]] = field(default_factory=dict)
    """An operation of that key, and the least and the most of each of its sizes."""
    rows: tuple[float, float] | None = None
    """The smallest and the largest batch that decoded."""
    context_tokens: float = 0.0
    """The most that all rows of a batch together had in the cache, of one pass."""
    prompts: dict[str, tuple[float, Chunks]] = field(default_factory=dict)
    """The forwards with the smallest and the largest chunk, most keys, longest keys, most chunks,
    each with its figure."""

    def meet(self, part: OpCost) -> None:
        """An operation was asked for at the sizes of *part*."""
        op = part.op
        if op.kernel in BY_SEQUENCE:
            return
        sizes = {name: size for name, size in op.inputs.items() if isinstance(size, np.ndarray)}
        fixed = tuple((n, v) for n, v in op.inputs.items() if not isinstance(v, np.ndarray))
        _, known = self.by_op.setdefault((op.name, op.kernel, op.precision, fixed), (op, {}))
        for name, size in sizes.items():
            asked = size[size > 0] if size.size and not size.all() else size
            if asked.size:
                _widen(known, name, (float(asked.min()), float(asked.max())))

    def meet_batches(self, rows: Iterable[float], context_tokens: float) -> None:
        """Batches of the least and most *rows* decoded, with at most so many tokens before."""
        found = [*rows, *(self.rows or ())]
        self.rows = min(found), max(found)
        self.context_tokens = max(self.context_tokens, context_tokens)

    def meet_prompts(self, chunks: Chunks) -> None:
        """A forward took *chunks* of prompts."""
        tokens = [count for count, _, _ in chunks]
        keys = [count + before for count, before, _ in chunks]
        for name, value in (
            ("smallest", -min(tokens)),
            ("largest", max(tokens)),
            ("longest", max(keys)),
            ("keys", sum(keys)),
            ("chunks", len(chunks)),
        ):
            if name not in self.prompts or value > self.prompts[name][0]:
                self.prompts[name] = value, chunks

    def include(self, other: "SizesMet") -> None:
        """Everything that *other* met."""
        for key, (op, ranges) in other.by_op.items():
            _, known = self.by_op.setdefault(key, (op, {}))
            for name, span in ranges.items():
                _widen(known, name, span)
        if other.rows is not None:
            self.meet_batches(other.rows, other.context_tokens)
        for _, chunks in other.prompts.values():
            self.meet_prompts(chunks)

    def ops(self) -> Iterator[Op]:
        """Operations at the ends of their ranges, those by sequence left out."""
        for op, ranges in self.by_op.values():
            ends = {name: np.array(span) for name, span in ranges.items()}
            yield replace(op, inputs=op.inputs | ends)


def _widen(ranges: Ranges, name: str, span: tuple[float, float]) -> None:
    low, high = ranges.get(name, span)
    ranges[name] = min(low, span[0]), max(high, span[1])
