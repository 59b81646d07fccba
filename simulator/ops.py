"""Ops: what a pass asks of a GPU, counted; how the common kinds of kernel are counted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.model import ELEMENT_BYTES
from simulator.routing import Routing
from simulator.schedule import MOVED, IntArray

FloatArray = npt.NDArray[np.float64]
Kernel = Literal[
    "gemm", "lm_head", "attention_extend", "attention_prefill", "moe", "elementwise", "all_reduce"
]

DataType = Literal["bf16", "fp8", "fp32"]


@dataclass(frozen=True)
class Precision:
    """Storage of weights and KV cache; activations are fp32 beside fp32 weights, else bf16."""

    weights: DataType = "bf16"
    kv: DataType = "bf16"

    def __post_init__(self) -> None:
        """Raise ValueError when one of weights and cache is fp32 and the other is not."""
        if (self.weights == "fp32") != (self.kv == "fp32"):
            msg = f"fp32 goes for both or neither, got weights {self.weights} and kv {self.kv}"
            raise ValueError(msg)

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return ELEMENT_BYTES[self.weights]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached number."""
        return ELEMENT_BYTES[self.kv]

    @property
    def computed(self) -> DataType:
        """The type of activations, and of everything that no engine here quantises."""
        return "fp32" if self.weights == "fp32" else "bf16"

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return ELEMENT_BYTES[self.computed]

    @property
    def unquantised(self) -> "Precision":
        """The precision of adapters, routers and LM heads beside weights of this one."""
        return Precision(self.computed, self.computed)


@dataclass(frozen=True)
class Op:
    """*count* equal kernels of a pass; *inputs* are what the kernel's cost curve takes."""

    name: str
    kernel: Kernel
    count: int
    inputs: dict[str, FloatArray | float | str]
    flop: FloatArray
    """All *count* kernels together, as are bytes and link bytes."""
    bytes: FloatArray
    link_bytes: FloatArray
    precision: DataType = "bf16"


@dataclass(frozen=True)
class StepLoad:
    """One pass over a batch: [6, rows, steps] as in Schedule, and what shares its launch."""

    loads: IntArray
    prefill: bool = False
    padding: float | FloatArray = 1.0
    """GEMM rows computed over GEMM rows asked for, of every step (CUDA-graph buckets, padding)."""
    chunks: IntArray | None = None
    """[6, chunks, steps]: pieces of prompts that go through the same launch, never padded."""

    def total(self, which: int) -> FloatArray:
        """Sum over the batch, [steps]; cached tokens are moved one by one, so never padded."""
        total: FloatArray = self.loads[which].sum(axis=0) * (
            1.0 if which == MOVED else self.padding
        )
        return total if self.chunks is None else total + self.chunks[which].sum(axis=0)


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
    moved = n * k * precision.weight_bytes * present + precision.activation_bytes * m * (n + k)
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


def elementwise(
    name: str, count: int, moved_bytes: FloatArray, row_bytes: float = 0.0, operation: str = ""
) -> Op:
    """Reads and writes *moved_bytes*; *row_bytes* for a kernel that gives each row to one block.

    *operation* names one that a profile may have timed on its own.
    """
    zero = np.zeros_like(moved_bytes)
    inputs: dict[str, FloatArray | float | str] = {
        "bytes_moved": moved_bytes,
        "row_bytes": row_bytes,
        "operation": operation,
    }
    return Op(name, "elementwise", count, inputs, zero, count * moved_bytes, zero)


def all_reduce(name: str, count: int, message_bytes: FloatArray, ranks: int) -> Iterator[Op]:
    """Sum over *ranks* GPUs; a ring sends and receives 2 (ranks - 1) / ranks of the message."""
    if ranks > 1:
        zero = np.zeros_like(message_bytes)
        inputs: dict[str, FloatArray | float | str] = {
            "message_bytes": message_bytes,
            "ranks": ranks,
        }
        link = count * message_bytes * 2 * (ranks - 1) / ranks
        yield Op(name, "all_reduce", count, inputs, zero, zero, link)
