"""The prefix cache against a list that does the same naively."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from simulator.prefix_cache import PrefixCache

prompts = st.lists(st.integers(0, 3), min_size=1, max_size=4)
BLOCK_BYTES = 10.0


class CacheMachine(RuleBasedStateMachine):
    """Requests that begin alike come, fill their blocks, and go, while room is short."""

    def __init__(self) -> None:
        """An empty cache, an empty list of (block, users), the longest unused first."""
        super().__init__()
        self.cache = PrefixCache()
        self.users: dict[int, int] = {}
        self.order: list[int] = []
        """Unused blocks in the order in which they became so."""
        self.held: list[tuple[int, ...]] = []

    @staticmethod
    def blocks(prompt: list[int]) -> tuple[int, ...]:
        """Identities that stand for all before them too."""
        return tuple(hash(tuple(prompt[: count + 1])) for count in range(len(prompt)))

    @rule(prompt=prompts)
    def come(self, prompt: list[int]) -> None:
        """Hold what is there, in order up to the first that is not, and add the rest."""
        blocks = self.blocks(prompt)
        expected = []
        for block in blocks:
            if block not in self.users:
                break
            expected.append(block)
        found = self.cache.leading(blocks)
        assert list(found) == expected
        self.cache.hold(found)
        for block in blocks[len(found) :]:
            assert self.cache.add(block, BLOCK_BYTES) == (block not in self.users)
            if block in self.users:
                self.cache.hold((block,))
            self.users.setdefault(block, 0)
        for block in blocks:
            self.users[block] += 1
            if block in self.order:
                self.order.remove(block)
        self.held.append(blocks)

    @rule(which=st.integers(0, 5))
    def go(self, which: int) -> None:
        """Release a request's blocks, the last one first."""
        if which < len(self.held):
            blocks = self.held.pop(which)
            self.cache.release(blocks)
            for block in reversed(blocks):
                self.users[block] -= 1
                if not self.users[block]:
                    self.order.append(block)

    @rule(room=st.integers(0, 6))
    def evict(self, room: int) -> None:
        """What was unused longest goes first, and only as much as must."""
        self.cache.evict(room * BLOCK_BYTES)
        while len(self.order) > room:
            del self.users[self.order.pop(0)]

    @invariant()
    def agrees(self) -> None:
        """Bytes in use and unused are those of the list."""
        used = sum(count > 0 for count in self.users.values())
        assert self.cache.used_bytes == used * BLOCK_BYTES
        assert self.cache.unused_bytes == len(self.order) * BLOCK_BYTES


def test_the_cache_does_what_the_list_does() -> None:
    """After any sequence of calls it finds, holds and forgets what the list says."""
    run_state_machine_as_test(
        CacheMachine, settings=settings(max_examples=60, stateful_step_count=30)
    )


def test_holding_what_is_not_cached_is_an_error() -> None:
    """A block that was never added has no bytes to hold."""
    cache = PrefixCache()

    with pytest.raises(KeyError):
        cache.release((7,))
