"""The allocator of the C library, told to keep what is freed, as serving engines keep their memory.

Given back to the system, the large tensors of every forward are faulted in again page by page: a
pass of 768 tokens was seen to take a third longer.
"""

import ctypes
import sys
from typing import Final

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""As in the GNU C library's malloc.h."""
LARGEST: Final = 2**31 - 1


def keep_freed_memory() -> bool:
    """Whether this process keeps from now on what it frees; only the GNU C library is told."""
    if not sys.platform.startswith("linux"):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is None:
        return False
    return all(option(name, LARGEST) == 1 for name in (MMAP_THRESHOLD, TRIM_THRESHOLD))
