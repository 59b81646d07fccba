"""Stepping: the rows of a replica that decode, and what their next steps cost.

Tests hold all to the same records: `one_by_one`, the plain loop over rows and steps; `in_bulk`,
which adds rows up once and prices many steps together; `in_rounds`, where rows wait for blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from simulator.prompts import Chunk
    from simulator.row import Row
    from simulator.step_cost import CostAccount
    from simulator.stepping.upcoming import FloatArray, Upcoming


class Stepping(Protocol):
    """The rows that decode; a row is told from another by identity."""

    account: CostAccount

    @property
    def is_empty(self) -> bool:
        """Whether no row has a step to take."""

    @property
    def at_boundary(self) -> bool:
        """Whether rows may join and leave now."""

    @property
    def next_kv_bytes(self) -> float:
        """Cache that all rows hold during the next step."""

    @property
    def next_query_tokens(self) -> int:
        """Tokens that go through the passes of the next step, of all rows."""

    def start(self, row: Row) -> None:
        """*row* decodes from its position on."""

    def drop(self, row: Row) -> None:
        """Take out a row that is not over; its position and the ends of its steps are kept."""

    def leave(self, row: Row) -> None:
        """Take out a row that is over."""

    def upcoming(self, most_steps: int, *, until_finish: bool, quiet_s: float) -> Upcoming:
        """The next steps of the batch as it is, at least one.

        At most until a row is over where *until_finish*. After *quiet_s* something happens that may
        change the batch, so that later steps are not worth pricing.
        """

    def advance(self, ends_s: FloatArray) -> None:
        """As many steps as *ends_s* were taken, and ended then."""

    def take_finished(self) -> dict[Row, float]:
        """Rows that came to their end since they were asked for last, and when."""

    def prefill(self, chunks: tuple[Chunk, ...]) -> tuple[float, int]:
        """(seconds, query tokens of all passes) of a forward over prompts, accounted for."""

    def mixed(self, chunks: tuple[Chunk, ...]) -> Upcoming:
        """The next step with prompt *chunks* in its last target pass; columns without them."""

    def settle(self) -> None:
        """Bring the account up to date."""
