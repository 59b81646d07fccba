"""Ops: what a pass asks of a GPU, counted; how the common kinds of kernel are counted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.model import ELEMENT_BYTES
from simulator.routing import Routing
from simulator.schedule import IntArray

FloatArray = npt.NDArray[np.float64]
Kernel = Literal[
    "gemm", "lm_head", "attention_extend", "attention_prefill", "moe", "elementwise", "all_reduce"
]

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Precision:
    """Storage of weights and KV cache; activations are bf16."""

    weights: Literal["bf16", "fp8"] = "bf16"
    kv: Literal["bf16", "fp8"] = "bf16"

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return ELEMENT_BYTES[self.weights]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached number."""
        return ELEMENT_BYTES[self.kv]


@dataclass(frozen=True)
class Op:
    """*count* equal kernels of a pass; *inputs* are what the kernel's cost curve takes."""

    name: str
    kernel: Kernel
    count: int
    inputs: dict[str, FloatArray | float]
    flop: FloatArray
    """All *count* kernels together, as are bytes and link bytes."""
    bytes: FloatArray
    link_bytes: FloatArray
    precision: Literal["bf16", "fp8"] = "bf16"


@dataclass(frozen=True)
class StepLoad:
    """One pass over a batch: [6, rows, steps] as in Schedule, and its padding."""

    loads: IntArray
    prefill: bool = False
    padding: float = 1.0
    """GEMM rows computed over GEMM rows asked for (CUDA-graph buckets)."""

    def total(self, which: int) -> FloatArray:
        """Sum over the batch, [steps]."""
        total: FloatArray = self.loads[which].sum(axis=0) * self.padding
        return total


@dataclass(frozen=True)
class Placement:
    """How a stack lies on the GPUs and what its weights and cache are stored as."""

    tensor_parallel: int = 1
    precision: Precision = field(default_factory=Precision)
    routing: Routing = field(default_factory=Routing)
    sharded_lm_head: bool = True
    kv_traffic_factor: float = 1.0


def gemm(
    name: str,
    count: int,
    m: FloatArray,
    shape: tuple[float, float],
    precision: Precision,
) -> Op:
    """y[m, n] = x[m, k] W[n, k]^T: 2mnk flop; weights, input and output once each."""
    n, k = shape
    present = m > 0
    moved = n * k * precision.weight_bytes * present + ACTIVATION_BYTES * m * (n + k)
    return Op(
        name=name,
        kernel="gemm",
        count=count,
        inputs={"m": m, "n": n, "k": k},
        flop=2.0 * count * m * n * k,
        bytes=count * moved,
        link_bytes=np.zeros_like(m),
        precision=precision.weights,
    )


def elementwise(name: str, count: int, moved_bytes: FloatArray, row_bytes: float = 0.0) -> Op:
    """Reads and writes *moved_bytes*; *row_bytes* for a kernel that gives each row to one block."""
    zero = np.zeros_like(moved_bytes)
    inputs: dict[str, FloatArray | float] = {"bytes_moved": moved_bytes, "row_bytes": row_bytes}
    return Op(name, "elementwise", count, inputs, zero, count * moved_bytes, zero)


def all_reduce(name: str, count: int, message_bytes: FloatArray, ranks: int) -> Iterator[Op]:
    """Sum over *ranks* GPUs; a ring sends and receives 2 (ranks - 1) / ranks of the message."""
    if ranks > 1:
        zero = np.zeros_like(message_bytes)
        inputs: dict[str, FloatArray | float] = {"message_bytes": message_bytes, "ranks": ranks}
        link = count * message_bytes * 2 * (ranks - 1) / ranks
        yield Op(name, "all_reduce", count, inputs, zero, zero, link)
