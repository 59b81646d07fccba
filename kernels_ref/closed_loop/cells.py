"""Cells: synthetic batches of the sizes that decoders ask for, and a pass over one of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from kernels_ref.closed_loop.timed_pass import Stopwatch, TimedDecoder
from kernels_ref.kernels.visibility import up_to
from kernels_ref.pass_shape import PassShape
from kernels_ref.passes import Decoder, KvCache

PREFIXES: Final = 4
PROMPTS: Final = 6
"""Lengths of each kind, evenly spread."""
PARTS: Final = 8
EVERY_ROW: Final = 4
"""Every batch up to here is measured, beyond it one in two."""


@dataclass(frozen=True)
class Cell:
    """A batch of rows: *queries* of each behind *prefix_tokens*, every other row a block more.

    So neighbours differ, as in a batch whose rows go on at their own pace; prompts do not.
    """

    rows: int
    queries: int
    prefix_tokens: int
    is_prompt: bool = False
    is_adapted: bool = False
    """Whether the adapters are on, for all but the first query of a row."""


@dataclass(frozen=True)
class Sizes:
    """What the decoders of one model ask for."""

    rows: int
    """Of the largest batch."""
    queries: Mapping[int, tuple[int, ...]]
    """Of a row in a forward as padded, and how many of them are asked, in rising order."""
    adapted: frozenset[int]
    """Of a row in a forward with adapters."""
    prompt_tokens: int
    """Of the longest prompt in a prefill."""
    context_tokens: int
    """Places of the longest sequence."""

    def __or__(self, other: "Sizes") -> "Sizes":
        """Both."""
        return Sizes(
            max(self.rows, other.rows),
            {
                count: tuple(sorted(self.queries.get(count, ()) + other.queries.get(count, ())))
                for count in {*self.queries, *other.queries}
            },
            self.adapted | other.adapted,
            max(self.prompt_tokens, other.prompt_tokens),
            max(self.context_tokens, other.context_tokens),
        )


def cells(sizes: Sizes) -> list[Cell]:
    """Every batch to time."""
    return list(dict.fromkeys(_cells(sizes)))


def _cells(sizes: Sizes) -> Iterator[Cell]:
    for rows in _rows(sizes.rows):
        for is_adapted, queries in ((False, _two(frozenset(sizes.queries))), (True, sizes.adapted)):
            for count in sorted(queries):
                for prefix in _spread(max(1, sizes.context_tokens - count), PREFIXES):
                    yield Cell(rows, count, prefix, is_adapted=is_adapted)
        for tokens in _spread(sizes.prompt_tokens, PROMPTS):
            yield Cell(rows, tokens, 0, is_prompt=True)


def _two(queries: frozenset[int]) -> frozenset[int]:
    """*queries*, and where there is one number alone another: a table has two sizes at least."""
    return queries if len(queries) > 1 else queries | {max(1, each // 2) for each in queries} | {2}


def _rows(most: int) -> list[int]:
    """Batches up to *most*; at least EVERY_ROW, so that few rows too make enough points."""
    return sorted({*range(1, EVERY_ROW + 1), *range(EVERY_ROW, most, 2), max(most, EVERY_ROW)})


def _spread(most: int, count: int) -> list[int]:
    """So many lengths up to *most*, fewer where it is small."""
    return sorted({max(1, most * part // count) for part in range(1, count + 1)})


@dataclass(frozen=True, eq=False)
class Stand:
    """A decoder whose passes are timed, cell by cell."""

    decoder: Decoder
    sees_blocks_of: int
    """A query sees up to the end of its block of so many tokens: 1 is causal."""
    sizes: Sizes

    @property
    def shape(self) -> PassShape:
        """Of the decoder."""
        return self.decoder.shape

    def prefixes(self, cell: Cell) -> list[int]:
        """Cached tokens of each row."""
        if cell.is_prompt:
            return [0] * cell.rows
        block = self.sees_blocks_of
        first = cell.prefix_tokens // block * block
        return [first + block * (row % 2) for row in range(cell.rows)]

    def asked(self, cell: Cell) -> list[int]:
        """Queries of each row that are no padding: quantiles of what decoders ask for."""
        known = () if cell.is_prompt else self.sizes.queries.get(cell.queries, ())
        if cell.is_adapted or not known:
            return [cell.queries] * cell.rows
        places = [(2 * row + 1) * len(known) // (2 * cell.rows) for row in range(cell.rows)]
        return [known[place] for place in places]

    def timed(self, cell: Cell, stopwatch: Stopwatch, cache: KvCache) -> None:
        """One pass over *cell*, its kernels told to *stopwatch*."""
        decoder, device = TimedDecoder(self.decoder, stopwatch), cache.keys[0].device
        rows, count = cell.rows, cell.queries
        prefix = torch.tensor(self.prefixes(cell), device=device)
        queries = torch.tensor(self.asked(cell), device=device)
        block = self.sees_blocks_of
        places = prefix[:, None] + torch.arange(count, device=device)
        ends = (places // block + 1) * block
        # Blocks end with the queries, as they do where prompts are cut into whole ones.
        seen = up_to(prefix, queries, torch.minimum(ends, (prefix + queries)[:, None]))
        gate = None
        if cell.is_adapted:
            gate = torch.ones(rows, count, dtype=torch.bool, device=device)
            gate[:, 0] = False
        tokens = torch.zeros(rows, count, dtype=torch.int64, device=device)
        plans = decoder.plans(seen, count, cache)
        with torch.no_grad():
            states = decoder.states(
                decoder.embedded(tokens), seen, plans=plans, cache=cache, gate=gate
            )
            decoder.most_likely(states.flatten(0, 1))


class Sweeps:
    """What the kernels of every cell took in the fastest of some visits far apart.

    Of a whole pass, and not of each kernel by itself: that would be faster than any pass is on a
    machine that others disturb.
    """

    def __init__(self, stand: Stand) -> None:
        """Nothing is timed yet."""
        self.stand = stand
        self.cells = cells(stand.sizes)
        self.fastest: dict[Cell, Stopwatch] = {}

    def parts(self) -> list[list[Cell]]:
        """The cells in PARTS, each of all sizes, to be visited at different times."""
        return [part for first in range(PARTS) if (part := self.cells[first::PARTS])]

    def visit(self, part: Sequence[Cell]) -> None:
        """Time every cell of a part once."""
        stand = self.stand
        widest = max(max(stand.prefixes(cell)) + cell.queries for cell in part)
        caches: dict[int, KvCache] = {}
        for cell in part:
            if cell.rows not in caches:
                caches[cell.rows] = stand.decoder.new_cache(cell.rows, widest)
            stopwatch = Stopwatch(stand.decoder.weights.embedding.device)
            stand.timed(cell, stopwatch, caches[cell.rows])
            known = self.fastest.get(cell, stopwatch)
            self.fastest[cell] = min(known, stopwatch, key=lambda each: each.total_s)


def stands(decoders: Iterable[tuple[Decoder, int, Sizes]]) -> list[Stand]:
    """One of each shape and sight among *decoders*, with the sizes of all that are alike."""
    found: dict[tuple[PassShape, int], Stand] = {}
    for decoder, sees, sizes in decoders:
        key = decoder.shape, sees
        known = found.get(key)
        found[key] = Stand(decoder, sees, sizes if known is None else known.sizes | sizes)
    return list(found.values())
