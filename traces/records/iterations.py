"""What every iteration of a speculative decoder drafted, accepted and emitted."""

from traces.iteration_statistics import summary
from traces.iteration_trace import FORM

__all__ = ["FORM", "summary"]
