"""KvLedger: who owns how much of the KV cache; nothing is granted that does not fit."""

from dataclasses import dataclass, field

from simulator.prefix_cache import PrefixCache


@dataclass
class KvLedger:
    """Cache of *capacity_bytes* per GPU.

    A request is granted its share when it is admitted; what all that decode hold is one number,
    which grows step by step where the engine grants pages as they fill. Prefix blocks that nobody
    uses stay until their place is needed.
    """

    capacity_bytes: float
    granted_bytes: dict[int, float] = field(default_factory=dict)
    """Of requests whose cache is being filled, or on its way to another replica."""
    decoding_bytes: float = 0.0
    """Of all requests that decode."""
    prefixes: PrefixCache = field(default_factory=PrefixCache)
    _filling_bytes: float = 0.0

    @property
    def other_bytes(self) -> float:
        """Bytes in use now, but for those of requests that decode."""
        return self._filling_bytes + self.prefixes.used_bytes

    @property
    def used_bytes(self) -> float:
        """Bytes in use now: everything but prefix blocks that nobody uses."""
        return self.other_bytes + self.decoding_bytes

    @property
    def free_bytes(self) -> float:
        """Bytes not in use."""
        return self.capacity_bytes - self.used_bytes

    def fits(self, n_bytes: float) -> bool:
        """Whether *n_bytes* more can be granted."""
        return n_bytes <= self.free_bytes

    def allocate(self, request: int, n_bytes: float) -> None:
        """Grant *n_bytes* to *request*; raises ValueError if it has some or they do not fit."""
        if request in self.granted_bytes:
            message = f"request {request} holds cache already"
            raise ValueError(message)
        if not self.fits(n_bytes):
            message = f"{n_bytes:.0f} bytes do not fit in the {self.free_bytes:.0f} that are free"
            raise ValueError(message)
        self.granted_bytes[request] = n_bytes
        self._filling_bytes += n_bytes

    def free(self, request: int) -> None:
        """Take back what *request* was granted; raises KeyError if it holds nothing."""
        self._filling_bytes -= self.granted_bytes.pop(request)

    def make_room(self) -> None:
        """Forget unused prefix blocks, the longest unused first, until all the rest fits."""
        if self.prefixes.unused_bytes:
            self.prefixes.evict(self.capacity_bytes - self.used_bytes)
