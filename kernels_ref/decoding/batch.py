"""A batch of sequences decoded together: heterogeneous rows packed into dense forwards.

Rows go on at their own pace. Each forward takes from every row what it asks for, at the row's own
place, and is dense (FlowBlock, section 4.2). Prompts are prefilled in a forward of their own, and
so are drafts drafted.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kernels_ref.decoding.query import Cache, Kind, Model, Prediction, Query

Decoding = Generator[Query, Prediction, None]
"""One row's decoder: yields what it asks, is sent what the model says."""
Group = Generator[dict[int, Query], dict[int, Prediction], None]
"""A batch's decoder: the same by row. Rows that are done ask no more, and those without a prompt to
prefill wait while others prefill theirs."""

APART: Final[tuple[Kind, ...]] = ("prefill", "draft")
"""Kinds that share a forward with no other: prompts are long, and drafts are a drafter's."""


class Log(Protocol):
    """What hears of every forward of a row."""

    def ask(self, query: Query) -> None:
        """A forward with *query* begins."""


class Row(Protocol):
    """A request of a batch, whatever it decodes by."""

    @property
    def record(self) -> Log:
        """What its decoding did."""

    @property
    def capacity_tokens(self) -> int:
        """Places that its KV may come to take."""


@dataclass
class BatchForwards:
    """Forwards over the whole batch so far, of which some prefilled only."""

    prefill: int = 0
    decode: int = 0
    rows: list[int] = field(default_factory=list)
    """Rows that took part in each decode forward."""


def independent(decodings: Sequence[Decoding]) -> Group:
    """Rows that do not wait for one another once all prompts are prefilled."""
    asked = {row: next(decoding) for row, decoding in enumerate(decodings)}
    prompts = {row: query for row, query in asked.items() if query.kind == "prefill"}
    if prompts:
        others = {row: query for row, query in asked.items() if row not in prompts}
        answers = yield prompts
        asked = others | _asked_next(decodings, answers)
    while asked:
        answers = yield asked
        asked = _asked_next(decodings, answers)


def _asked_next(decodings: Sequence[Decoding], answers: dict[int, Prediction]) -> dict[int, Query]:
    """What the rows that are told *answers* ask next; those that are done with them ask no more."""
    asked = {}
    for row, answer in answers.items():
        try:
            asked[row] = decodings[row].send(answer)
        except StopIteration:
            continue
    return asked


def decode_batch(model: Model, sequences: Sequence[Row], group: Group) -> BatchForwards:
    """Run *group* over *sequences* to its end; the sequences hold what came out."""
    done = BatchForwards()
    asked = next(group)
    rows = list(range(len(sequences)))
    longest = max(sequence.capacity_tokens for sequence in sequences)
    cache = model.new_cache(len(rows), longest)
    while True:
        waiting = any(query.kind == "prefill" for query in asked.values())
        if len(asked) < len(rows) and not waiting:
            cache = cache.keep([rows.index(row) for row in asked])
            rows = list(asked)
        for row, query in asked.items():
            sequences[row].record.ask(query)
        answers = _answered(model, [asked.get(row) for row in rows], cache, done)
        told = {row: said for row, said in zip(rows, answers, strict=True) if said is not None}
        try:
            asked = group.send(told)
        except StopIteration:
            return done


def _answered(
    model: Model, asked: list[Query | None], cache: Cache, done: BatchForwards
) -> list[Prediction | None]:
    """What each row is told, kinds that stay apart by themselves; None for who waits."""
    answers: list[Prediction | None] = [None] * len(asked)
    for kind in (*APART, None):
        queries = [q if q and _apart(q) == kind else None for q in asked]
        count = sum(query is not None for query in queries)
        if not count:
            continue
        if kind == "prefill":
            done.prefill += 1
        else:
            done.decode += 1
            done.rows.append(count)
        said = model.forward(queries, cache)
        answers = [new or old for new, old in zip(said, answers, strict=True)]
    return answers


def _apart(query: Query) -> Kind | None:
    return query.kind if query.kind in APART else None
