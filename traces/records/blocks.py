"""What became of every block of a block-diffusion decoder, forward by forward."""

from traces.block_trace import FORM
from traces.statistics import summary

__all__ = ["FORM", "summary"]
