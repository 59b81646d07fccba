"""A pass with a clock at every kernel: what each takes where it runs, between the others.

Repeated by itself a kernel finds its operands, and a CPU its own code, where the last call left
them. In a pass both come from further away: norms were seen to take up to twice as long.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import torch

from kernels_ref.closed_loop.device import now_s, wait
from kernels_ref.kernels.attention import AttentionPlan
from kernels_ref.kernels.lm_head import confidence, lm_head
from kernels_ref.kernels.lora import add_gated_lora
from kernels_ref.pass_shape import LayerShape
from kernels_ref.passes import Batch, Decoder, Store
from kernels_ref.random_weights import LayerWeights, Projection

T = TypeVar("T")
LOOKS: Final = 20
"""At the clock, to see what one takes: a thread's own time takes a call of the system."""
Key = tuple[str, tuple[int, ...]]
"""A kernel, or an operation among the elementwise ones, and its sizes."""


@dataclass
class Stopwatch:
    """Seconds of every kernel, each time it ran."""

    device: torch.device
    seconds: dict[Key, list[float]] = field(default_factory=dict)

    def timed(self, key: Key, kernel: Callable[[], T]) -> T:
        """What *kernel* returns, its time kept under *key*."""
        wait(self.device)
        began = now_s(self.device)
        out = kernel()
        wait(self.device)
        self.seconds.setdefault(key, []).append(now_s(self.device) - began)
        return out

    @property
    def total_s(self) -> float:
        """Of all kernels."""
        return sum(map(sum, self.seconds.values()))

    def mean_s(self) -> dict[Key, float]:
        """Of each kernel over its runs, less what looking at the clock takes."""
        looks = [now_s(self.device) for _ in range(LOOKS)]
        look_s = (looks[-1] - looks[0]) / (LOOKS - 1)
        return {
            key: max(sum(each) / len(each) - look_s, look_s) for key, each in self.seconds.items()
        }


class TimedDecoder(Decoder):
    """A decoder that tells a stopwatch what each of its kernels takes."""

    def __init__(self, inner: Decoder, stopwatch: Stopwatch) -> None:
        """The same weights as *inner*."""
        super().__init__(inner.shape, inner.weights)
        self._stopwatch = stopwatch

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        """Input embeddings of *tokens* [rows, queries]."""
        table = self.weights.embedding
        sizes = (tokens.numel(), table.shape[1])
        return self._stopwatch.timed(("embedding", sizes), lambda: table[tokens])

    def most_likely(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Token and probability of each of *states* [n, hidden], which are picked out first."""
        head = self.weights.lm_head
        sizes = (len(states), *head.shape)
        asked = torch.arange(len(states), device=states.device)
        logits = self._stopwatch.timed(("lm_head", sizes), lambda: lm_head(states[asked], head))
        return self._stopwatch.timed(("confidence", logits.shape), lambda: confidence(logits))

    def _into_block(
        self, change: torch.Tensor | None, residual: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        inner = super()._into_block
        # Without a change to add it is another, smaller kernel, and priced as this one.
        name = "norm" if change is not None else "first norm"
        return self._stopwatch.timed(
            (name, residual.shape), lambda: inner(change, residual, weight)
        )

    def _heads(
        self, qkv: torch.Tensor, shape: LayerShape, weights: LayerWeights, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        inner = super()._heads
        turned = shape.query_columns + shape.kv_columns
        return self._stopwatch.timed(
            ("rotary", (len(qkv), turned)), lambda: inner(qkv, shape, weights, batch)
        )

    def _over_keys(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        store: Store,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        inner = super()._over_keys
        return self._stopwatch.timed(
            ("attention", ()), lambda: inner(query, key, value, store, plan)
        )

    def _gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        inner = super()._gated
        sizes = (len(gate_up), gate_up.shape[1] // 2)
        return self._stopwatch.timed(("swiglu", sizes), lambda: inner(gate_up))

    def _project(self, x: torch.Tensor, projection: Projection, batch: Batch) -> torch.Tensor:
        sizes = (len(x), *projection.weight.shape)
        bare = Projection(projection.weight)
        base = self._stopwatch.timed(
            ("gemm", sizes), lambda: super(TimedDecoder, self)._project(x, bare, batch)
        )
        adapters, gate = projection.adapters, batch.gate
        if adapters is None or gate is None:
            return base
        outs = (len(up) for up in adapters.ups)
        on = (int(gate.sum()), x.shape[1], len(adapters.down), *outs)
        return self._stopwatch.timed(
            ("adapters", on),
            lambda: add_gated_lora(
                base, x, adapters.down, adapters.ups, gate, self.shape.adapter_scaling
            ),
        )
