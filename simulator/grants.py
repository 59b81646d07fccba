"""Grants: the cache that a replica's requests hold, their own and the prefixes that they share."""

from typing import Final

from simulator.capacity import GIGABYTE
from simulator.deployment import Deployment
from simulator.kvcache import KvLedger
from simulator.request import Request
from simulator.row import Row

KEPT_LENGTHS: Final = 1 << 16


class Grants:
    """Asks the ledger of a replica for what rows need, as its engine does."""

    def __init__(self, deployment: Deployment, ledger: KvLedger) -> None:
        """Nobody holds anything."""
        engine = deployment.engine
        self.ledger = ledger
        self.grows = engine.kv_admission == "growing"
        """Whether rows are granted more as they decode."""
        self._deployment = deployment
        self._shares = engine.prefix_caching
        self._watermark_bytes = engine.kv_watermark * ledger.capacity_bytes
        self._held: dict[int, float] = {}

    def why_never(self, request: Request) -> str:
        """Why *request* could never be served; nothing when it can."""
        tokens, model = request.total_tokens, self._deployment.model
        if tokens > model.max_context_tokens:
            most = model.max_context_tokens
            return f"{tokens} tokens are more than the context of {model.name}, {most}"
        needed, capacity = self._held_bytes(tokens), self.ledger.capacity_bytes
        if needed <= capacity:
            return ""
        there = max(0.0, capacity) / GIGABYTE
        return f"{tokens} tokens need {needed / GIGABYTE:.2f} GB of cache, there are {there:.2f} GB"

    def shares(self, request: Request) -> bool:
        """Whether *request* may find the beginning of its prompt in the cache."""
        return self._shares and bool(request.prefix)

    def grant(self, row: Row, *, beside_others: bool) -> bool:
        """Grant *row* the cache to be filled, if it fits; beside others the watermark is left."""
        request = row.request
        tokens = request.total_tokens
        if self.grows:
            tokens = row.tokens_before_next if row.prepared else request.prompt_tokens
        self._hold_prefix(row)
        n_bytes = self._held_bytes(tokens) - row.prefix_bytes
        if self.ledger.fits(n_bytes + (self._watermark_bytes if beside_others else 0.0)):
            self.ledger.allocate(request.index, n_bytes)
            return True
        self.let_go(row)
        return False

    def filled(self, row: Row) -> None:
        """The prompt of *row* is in the cache: its whole blocks stay for others."""
        request, prefixes = row.request, self.ledger.prefixes
        self.ledger.free(request.index)
        if not self.shares(request):
            return
        size = request.prefix_block_tokens
        whole = min(request.prompt_tokens, row.goal_tokens) // size
        for place in range(len(row.prefix), min(whole, len(request.prefix))):
            ends = [self._held_bytes(count * size) for count in (place, place + 1)]
            if not prefixes.add(request.prefix[place], ends[1] - ends[0]):
                prefixes.hold(request.prefix[place : place + 1])
        row.prefix = request.prefix[: max(whole, len(row.prefix))]
        row.prefix_bytes = self._prefix_bytes(row)

    def let_go(self, row: Row) -> None:
        """*row* needs its prefix no more."""
        self.ledger.prefixes.release(row.prefix)
        row.prefix, row.prefix_bytes = (), 0.0

    def _hold_prefix(self, row: Row) -> None:
        """Hold on to what the cache has of the row's prompt already."""
        request = row.request
        if not self.shares(request):
            return
        # At least one token is computed anew, so that there is something to sample from.
        most = (request.prompt_tokens - 1) // request.prefix_block_tokens
        row.prefix = self.ledger.prefixes.leading(request.prefix[:most])
        row.prefix_bytes = self._prefix_bytes(row)
        self.ledger.prefixes.hold(row.prefix)

    def _prefix_bytes(self, row: Row) -> float:
        return self._held_bytes(len(row.prefix) * row.request.prefix_block_tokens)

    def _held_bytes(self, tokens: int) -> float:
        """Cache of so many *tokens*; loads have few lengths, so they are remembered."""
        held = self._held.get(tokens)
        if held is None:
            if len(self._held) >= KEPT_LENGTHS:
                self._held.clear()
            held = self._held[tokens] = float(self._deployment.held_bytes(tokens))
        return held
