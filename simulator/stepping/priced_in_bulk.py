"""Prices of a batch from its sums and maxima, and what was taken of them, to be accounted for."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from simulator.batch_price import (
    EMITTED_TOKENS,
    KV_BYTES,
    QUERY_TOKENS,
    ROWS,
    BatchPrice,
    Terms,
)
from simulator.deployment import Deployment
from simulator.prompts import Chunk, chunk_loads, emitting, prefill_passes
from simulator.row import Row
from simulator.schedule import Pass
from simulator.step_cost import CostAccount
from simulator.stepping.upcoming import FloatArray, Upcoming

FLUSH_COLUMNS: Final = 16384
"""Steps that wait to be accounted for."""
KEPT_PREFILLS: Final = 4096

Columns = tuple[FloatArray, FloatArray]
Prefill = tuple[float, int, BatchPrice, Columns]


class PricedInBulk:
    """Base of the steppings that price from totals."""

    def __init__(self, deployment: Deployment) -> None:
        """Nothing is priced yet."""
        self.account = CostAccount()
        self._deployment = deployment
        self._grows = deployment.engine.kv_admission == "growing"
        self._finished: dict[Row, float] = {}
        """Rows that came to their end and were not asked for yet, and when."""
        self._decode: BatchPrice | None = None
        self._prompts: BatchPrice | None = None
        self._prefills: dict[tuple[Chunk, ...], Prefill] = {}
        self._next_columns: Columns | None = None
        self._pending: dict[tuple[BatchPrice, int], list[Columns]] = {}
        """Of each price, and number of sums: steps with prompt chunks in them have more."""
        self._pending_columns = 0

    def price(self, passes: Sequence[Pass]) -> BatchPrice:
        """Prices of decode steps; the passes of all requests are alike."""
        if self._decode is None:
            self._decode = BatchPrice(self._deployment, passes)
        return self._decode

    def terms_of(self, row: Row) -> Terms:
        """The terms of all steps of *row*."""
        own, schedule = row.own, row.schedule
        price = self.price(schedule.passes)
        # Terms are of the price that made them; each replica has its own.
        found = own.derived.get(price)
        if isinstance(found, Terms):
            return found
        terms = price.terms(schedule.loads[:, :, None, :], schedule.emitted_tokens[None])
        # Whoever may be added up anew, when another is set back, is not worked out anew.
        if own.is_kept or self._grows:
            own.derived[price] = terms
        return terms

    def priced(
        self,
        sums: FloatArray,
        maxima: FloatArray,
        chunks: tuple[Chunk, ...] = (),
    ) -> Upcoming:
        """The steps of these *sums* and *maxima*, which are kept until they are taken."""
        if self._decode is None:
            message = "no row has joined"
            raise RuntimeError(message)
        if chunks:
            self.account.sizes.meet_prompts(chunks)
            loads = chunk_loads(chunks)[:, :, 0]
            terms = self._decode.mixed_terms(sums, maxima, loads, emitting(chunks))
            self._next_columns = terms.sums, terms.maxima
        else:
            self._next_columns = sums, maxima
        seconds = self._decode.seconds(*self._next_columns)
        return Upcoming(
            seconds=seconds,
            counts=sums[ROWS : EMITTED_TOKENS + 1],
            kv_bytes=sums[KV_BYTES],
            forwards=self._decode.forwards,
        )

    def take(self, n_steps: int) -> bool:
        """The first *n_steps* of those priced last were taken; whether these are all."""
        if self._next_columns is None or self._decode is None:
            message = "no step was priced"
            raise RuntimeError(message)
        sums, maxima = self._next_columns
        self._note(self._decode, (sums[:, :n_steps], maxima[:, :n_steps]))
        return bool(n_steps == sums.shape[1])

    def take_finished(self) -> dict[Row, float]:
        """Rows that came to their end, and when."""
        finished, self._finished = self._finished, {}
        return finished

    def prefill(self, chunks: tuple[Chunk, ...]) -> tuple[float, int]:
        """(seconds, query tokens of all passes) of a forward over prompts, accounted for."""
        found = self._prefills.get(chunks)
        if found is None:
            if len(self._prefills) >= KEPT_PREFILLS:
                self._prefills.clear()
            found = self._prefills[chunks] = self._priced_prefill(chunks)
        seconds, query_tokens, price, columns = found
        self._note(price, columns)
        return seconds, query_tokens

    def _priced_prefill(self, chunks: tuple[Chunk, ...]) -> Prefill:
        self.account.sizes.meet_prompts(chunks)
        passes, loads = prefill_passes(self._deployment, chunks)
        if self._prompts is None:
            self._prompts = BatchPrice(self._deployment, passes, prefill=True)
        terms = self._prompts.prompt_terms(loads, emitting(chunks))
        seconds = float(self._prompts.seconds(terms.sums, terms.maxima)[0])
        query_tokens = int(terms.sums[QUERY_TOKENS, 0])
        return seconds, query_tokens, self._prompts, (terms.sums, terms.maxima)

    def _note(self, price: BatchPrice, columns: Columns) -> None:
        """Remember steps that were taken, to be accounted for together with others."""
        self._pending.setdefault((price, len(columns[0])), []).append(columns)
        self._pending_columns += columns[0].shape[1]
        if self._pending_columns >= FLUSH_COLUMNS:
            self.settle()

    def settle(self) -> None:
        """Account for everything that was taken."""
        for (price, _), columns in self._pending.items():
            sums, maxima = (np.concatenate(part, axis=1) for part in zip(*columns, strict=True))
            price.account(self.account, sums, maxima)
        self._pending, self._pending_columns = {}, 0
