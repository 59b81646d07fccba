"""KvLedger: who owns how much of the KV cache; nothing is granted that does not fit."""

import math
from dataclasses import dataclass, field


@dataclass
class KvLedger:
    """Cache of *capacity_bytes* per GPU, granted per request and given back whole.

    A request is granted its finished length when it is admitted, so nothing is ever preempted.
    """

    capacity_bytes: float
    granted_bytes: dict[int, float] = field(default_factory=dict)

    @property
    def used_bytes(self) -> float:
        """Bytes granted now."""
        return math.fsum(self.granted_bytes.values())

    @property
    def free_bytes(self) -> float:
        """Bytes not granted."""
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

    def free(self, request: int) -> None:
        """Take back what *request* holds; raises KeyError if it holds nothing."""
        del self.granted_bytes[request]
