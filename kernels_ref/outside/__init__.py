"""Models from outside: block-diffusion checkpoints in Hugging Face format that answer queries."""

from kernels_ref.outside.checkpoint import outside_model
from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.tokenizer import tokenizer

__all__ = ["OutsideError", "outside_model", "tokenizer"]
