"""The cache ledger against a dictionary that does the same naively."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from simulator.kvcache import KvLedger

requests = st.integers(0, 9)
sizes = st.integers(1, 60)


class LedgerMachine(RuleBasedStateMachine):
    """Grants and frees in any order, refused ones included."""

    @initialize(capacity=st.integers(1, 200))
    def start(self, capacity: int) -> None:
        """An empty ledger and an empty dictionary."""
        self.capacity = capacity
        self.ledger = KvLedger(float(capacity))
        self.held: dict[int, int] = {}

    def free_bytes(self) -> int:
        """What the dictionary leaves."""
        return self.capacity - sum(self.held.values())

    @rule(request=requests, n_bytes=sizes)
    def allocate(self, request: int, n_bytes: int) -> None:
        """Granted when it fits and the request holds nothing, else refused and unchanged."""
        if request not in self.held and n_bytes <= self.free_bytes():
            self.ledger.allocate(request, float(n_bytes))
            self.held[request] = n_bytes
        else:
            with pytest.raises(ValueError, match=r"holds cache already|do not fit"):
                self.ledger.allocate(request, float(n_bytes))

    @rule(request=requests)
    def free(self, request: int) -> None:
        """Given back once; a second time, or never granted, is an error."""
        if request in self.held:
            self.ledger.free(request)
            del self.held[request]
        else:
            with pytest.raises(KeyError):
                self.ledger.free(request)

    @precondition(lambda self: self.free_bytes() > 0)
    @rule(request=st.integers(10, 19))
    def fill(self, request: int) -> None:
        """The last byte can be granted."""
        if request not in self.held:
            self.held[request] = self.free_bytes()
            self.ledger.allocate(request, float(self.held[request]))

    @invariant()
    def agrees(self) -> None:
        """Used and free are the dictionary's, add up to the capacity, and tell what fits."""
        assert self.ledger.granted_bytes == self.held
        assert self.ledger.used_bytes == sum(self.held.values())
        assert self.ledger.free_bytes == self.free_bytes()
        assert self.ledger.used_bytes <= self.capacity
        assert self.ledger.fits(self.free_bytes())
        assert not self.ledger.fits(self.free_bytes() + 1)


sequences = settings(max_examples=40, stateful_step_count=30)


def test_the_ledger_does_what_the_dictionary_does() -> None:
    """After any sequence of calls the ledger grants, refuses and counts like the dictionary."""
    run_state_machine_as_test(LedgerMachine, settings=sequences)
