"""Schedule: what one request does, as plain arrays over its decode steps."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Rows of Pass.loads.
QUERY, CONTEXT, LOGITS, ADAPTER, FEATURES, MOVED = range(6)
N_LOADS = 6

TARGET = "target"
"""The stack of the model itself, beside which others are its drafters."""


@dataclass(frozen=True)
class Pass:
    """One launch over the batch within a step: per step, how much of it is this request's.

    *loads* is [6, steps]: query tokens through all layers, tokens already in the cache, LM-head
    rows, query tokens that also pass the adapter, target features that a drafter takes in, and
    cached tokens that are moved afterwards (the accepted path of a tree, made contiguous).
    """

    name: str
    loads: IntArray
    stack: str = TARGET
    """The model itself, or the name of one of its drafters."""
    launches: int = 1
    """Times the pass runs one after the other in a step (a sequential drafter)."""
    eager: bool = False
    """Its query count changes from step to step, so no CUDA graph serves it."""
    stored_tokens: int = 0
    """Cached tokens that each further launch of the step finds beyond those before the first."""

    @property
    def shape(self) -> tuple[str, str, int]:
        """What must agree between requests for their passes to share a launch."""
        return self.name, self.stack, self.launches

    def mean_loads(self, loads: IntArray) -> IntArray:
        """*loads* [6, ...] of the first launch, as those of a mean launch of the step."""
        between = self.stored_tokens * (self.launches - 1) // 2
        if not between:
            return loads
        mean = loads.copy()
        mean[CONTEXT] += between
        return mean


@dataclass(frozen=True)
class Schedule:
    """The decode steps of a request: tokens emitted at each, and the passes that produce them."""

    emitted_tokens: IntArray
    passes: tuple[Pass, ...]
    prefill_tokens: int
    """Prompt tokens that go through the prefill."""
    prefill_emits_tokens: int = 0
    """Output tokens that the prefill itself yields (1 when it samples, as in AR)."""
    loads: IntArray = field(init=False, repr=False)
    """[passes, 6, steps]."""

    def __post_init__(self) -> None:
        """Stack the passes' loads, so that the engine slices one array."""
        object.__setattr__(self, "loads", np.stack([p.loads for p in self.passes]))

    @property
    def n_steps(self) -> int:
        """Decode steps."""
        return len(self.emitted_tokens)


def loads(  # noqa: PLR0913 (one argument per row of the array)
    n_steps: int,
    *,
    query: IntArray | int,
    context: IntArray | int,
    logits: IntArray | int = 0,
    adapter: IntArray | int = 0,
    features: IntArray | int = 0,
    moved: IntArray | int = 0,
) -> IntArray:
    """The [6, n_steps] array of a Pass; numbers stand for every step."""
    array = np.empty((N_LOADS, n_steps), dtype=np.int64)
    for row, value in enumerate((query, context, logits, adapter, features, moved)):
        array[row] = value
    return array


def dense_cache(schedule: Schedule, length_tokens: int) -> Schedule:
    """*schedule* on an engine whose decode reads the cache at its full *length_tokens*."""
    passes = []
    for step_pass in schedule.passes:
        whole = step_pass.loads.copy()
        whole[CONTEXT] = np.maximum(length_tokens - whole[QUERY], whole[CONTEXT])
        passes.append(replace(step_pass, loads=whole, stored_tokens=0))
    return replace(schedule, passes=tuple(passes))


def emitted_before(emitted_tokens: IntArray) -> IntArray:
    """Tokens that the step before each step emitted; before the first, the prefill's one."""
    return np.concatenate([[1], emitted_tokens])[: len(emitted_tokens)].clip(1)


def context_before(prompt_tokens: int, emitted_tokens: IntArray) -> IntArray:
    """Tokens committed before each step: the prompt and everything emitted earlier."""
    return prompt_tokens + np.cumsum(emitted_tokens) - emitted_tokens
