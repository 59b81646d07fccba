"""The time of a kernel and its parts."""

from dataclasses import dataclass

from hwprofiles.quantities import FloatArray


@dataclass(frozen=True)
class KernelTime:
    """Time of a kernel, and what each limit alone would cost; arrays of one shape, seconds.

    No part exceeds `seconds`: every curve combines its parts by sums and p-norms with p >= 1.
    """

    seconds: FloatArray
    """Predicted time."""
    compute_s: FloatArray
    """Arithmetic over the effective arithmetic rate."""
    memory_s: FloatArray
    """Bytes read and written over the effective memory bandwidth."""
    link_s: FloatArray
    """Bytes over the GPU-to-GPU link."""
    launch_s: FloatArray
    """The floor: launch, prologue, extra waves, work that does not depend on the size."""
