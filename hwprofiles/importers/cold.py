"""Which measured points read their operands from memory, and which found them in a cache.

Benchmarks go round a few buffers, so what fits into the last-level cache is read from there,
unlike in a model, where the weights and the cache of each layer are cold. What is far too small
to matter is kept: it shows what a launch costs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwprofiles.quantities import FloatArray

# A weight is one of six copies that a benchmark goes round, so six of them must exceed the cache:
# 12 MB of a cache of 50 MB is 1.4 times it. Keys and values, and streams, have one copy.
WEIGHT_SHARE = 0.24
WHOLE_SHARE = 1.2
FLOOR_WEIGHT_BYTES = 1e6
FLOOR_CACHE_BYTES = 2e6
FLOOR_STREAM_BYTES = 5e5


@dataclass(frozen=True)
class Cold:
    """The bounds of a device by the bytes of its last-level cache."""

    last_level_cache_bytes: float

    @property
    def weight_bytes(self) -> float:
        """Least bytes of a weight that is read from memory."""
        return WEIGHT_SHARE * self.last_level_cache_bytes

    @property
    def whole_bytes(self) -> float:
        """Least bytes of a KV cache or stream that is read from memory."""
        return WHOLE_SHARE * self.last_level_cache_bytes

    def weights(self, size_bytes: FloatArray) -> npt.NDArray[np.bool_]:
        """Which weights are cold, or show the launch."""
        return (size_bytes >= self.weight_bytes) | (size_bytes < FLOOR_WEIGHT_BYTES)

    def caches(self, size_bytes: FloatArray) -> npt.NDArray[np.bool_]:
        """Which keys and values are cold, or show the launch."""
        return (size_bytes >= self.whole_bytes) | (size_bytes < FLOOR_CACHE_BYTES)

    def streams(self, size_bytes: FloatArray) -> npt.NDArray[np.bool_]:
        """Which streams are cold, or show the launch."""
        return (size_bytes >= self.whole_bytes) | (size_bytes < FLOOR_STREAM_BYTES)

    @property
    def weights_told(self) -> str:
        """The bound of weights in words."""
        return f"weights >= {self.weight_bytes / 1e6:.3g} MB or < 1 MB"

    @property
    def caches_told(self) -> str:
        """The bound of keys and values in words."""
        return f"caches >= {self.whole_bytes / 1e6:.3g} MB or < 2 MB"

    @property
    def streams_told(self) -> str:
        """The bound of streams in words."""
        return f">= {self.whole_bytes / 1e6:.3g} MB or < 0.5 MB moved"
