"""PrefixCache: leading blocks of prompts that stay in the KV cache for whoever asks the same."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class PrefixCache:
    """Blocks by identity, those in use counted, the others in the order of their last use.

    A block's identity stands for everything before it too, as hashes of prefixes do.
    """

    _users: dict[int, int] = field(default_factory=dict)
    """Requests that hold each block in use."""
    _unused: dict[int, None] = field(default_factory=dict)
    """Blocks that nobody uses, the longest unused first."""
    _bytes: dict[int, float] = field(default_factory=dict)
    used_bytes: float = 0.0
    """Of the blocks in use."""
    unused_bytes: float = 0.0

    def leading(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Those of *blocks* that are cached, up to the first that is not."""
        found = []
        for block in blocks:
            if block not in self._bytes:
                break
            found.append(block)
        return tuple(found)

    def hold(self, blocks: Iterable[int]) -> None:
        """One more request uses each of *blocks*; raises KeyError for one that is not cached."""
        for block in blocks:
            if block in self._unused:
                del self._unused[block]
                self.unused_bytes -= self._bytes[block]
                self.used_bytes += self._bytes[block]
            self._users[block] = self._users.get(block, 0) + 1

    def add(self, block: int, n_bytes: float) -> bool:
        """Cache *block* for the request that filled it; False when it is there already."""
        if block in self._bytes:
            return False
        self._bytes[block] = n_bytes
        self._users[block] = 1
        self.used_bytes += n_bytes
        return True

    def release(self, blocks: Iterable[int]) -> None:
        """One request less uses each of *blocks*; the last of a prefix is forgotten first."""
        for block in reversed(tuple(blocks)):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._unused[block] = None
                self.used_bytes -= self._bytes[block]
                self.unused_bytes += self._bytes[block]

    def evict(self, room_bytes: float) -> None:
        """Forget unused blocks, the longest unused first, until they take at most *room_bytes*."""
        while self._unused and self.unused_bytes > room_bytes:
            block = next(iter(self._unused))
            del self._unused[block]
            self.unused_bytes -= self._bytes.pop(block)
