"""Operands that a kernel finds in memory and not in a cache."""

import math
from collections.abc import Sequence

import torch

TYPES = {
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp8": torch.bfloat16,
}
"""What operands are drawn in; fp8 weights are quantised from bf16."""
PATTERN_ELEMENTS = 1 << 18
ALIGNMENT_ELEMENTS = 64
MOST_COPIES = 2048
"""Operands so small that more would be needed take no longer than a launch, cold or not."""
SPREAD = 0.05
"""Standard deviation of operands: as weights, so that products neither overflow nor vanish."""


class DoesNotFitError(ValueError):
    """An operand is larger than the memory that measuring may take."""


class Pool:
    """One stretch of memory, cut into copies of an operand that a loop goes round.

    The copies of a point together are at least *working_set_bytes*, twice the last-level cache
    unless a smaller working set is what is to be measured; when a loop comes round to a copy, the
    others have driven it out. Holds one data type at a time, at most *most_bytes*.
    """

    def __init__(
        self, device: torch.device, *, working_set_bytes: float, most_bytes: float, seed: int = 0
    ) -> None:
        """Nothing is allocated before it is asked for."""
        self.device = device
        self.working_set_bytes = working_set_bytes
        self.most_bytes = most_bytes
        self._generator = torch.Generator(device="cpu").manual_seed(seed)
        self._held: torch.Tensor | None = None

    def copies(self, shape: Sequence[int], dtype: torch.dtype) -> list[torch.Tensor]:
        """Tensors of *shape* side by side, enough of them to fill the working set.

        Raises DoesNotFitError with both sizes where even one is more than *most_bytes*.
        """
        elements = math.prod(shape)
        step = -(-elements // ALIGNMENT_ELEMENTS) * ALIGNMENT_ELEMENTS
        copy_bytes = step * dtype.itemsize
        if copy_bytes > self.most_bytes:
            rule = f"needs {copy_bytes / 1e9:.2f} GB, allowed {self.most_bytes / 1e9:.2f} GB"
            raise DoesNotFitError(rule)
        wanted_bytes = min(self.working_set_bytes, self.most_bytes - copy_bytes)
        count = min(MOST_COPIES, max(1, math.ceil(wanted_bytes / copy_bytes)))
        flat = self._flat(count * step, dtype)
        return [flat[i * step : i * step + elements].view(*shape) for i in range(count)]

    def one(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of *shape* of its own, for what a kernel finds in a cache in a model too."""
        return self._filled(math.prod(shape), dtype).view(*shape)

    def release(self) -> None:
        """Give the memory back."""
        self._held = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _flat(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        held = self._held
        if held is None or held.dtype != dtype or held.numel() < elements:
            del held
            self.release()
            self._held = self._filled(elements, dtype)
        held = self._held
        if held is None:
            rule = "the pool was released while it was filled"
            raise RuntimeError(rule)
        return held

    def _filled(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """Random numbers; a pattern repeated, since drawing gigabytes takes longer than timing."""
        flat = torch.empty(elements, dtype=dtype, device=self.device)
        drawn = torch.randn(min(elements, PATTERN_ELEMENTS), generator=self._generator)
        pattern = (drawn * SPREAD).to(self.device, dtype)
        for start in range(0, elements, PATTERN_ELEMENTS):
            part = flat[start : start + PATTERN_ELEMENTS]
            part.copy_(pattern[: len(part)])
        return flat
