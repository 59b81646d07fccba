"""Block diffusion with a constant pace: which block a forward works on and when blocks finish."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, Strict

from simulator.pace import ConstantPace
from simulator.request import Request
from simulator.schedule import IntArray

Block = Annotated[int, Strict(), Field(ge=1, le=4096)]
BlockCount = Annotated[int, Strict(), Field(ge=1, le=64)]
TokensPerForward = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class BlockParameters:
    """Denoising in blocks of *block* tokens at a mean of *tokens_per_forward*.

    The mean counts every decode forward, those that only store KV included, and no prefill.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    policy: str
    block: Block = 32
    tokens_per_forward: TokensPerForward

    @property
    def pace(self) -> ConstantPace:
        """The constant pace."""
        return ConstantPace(self.tokens_per_forward)


@dataclass(frozen=True)
class BlockSteps:
    """Per decode forward of a request: tokens emitted, and the index of the leading block.

    Tokens come out when their block is finished, as the engines emit them. *last_start_tokens*
    is where each forward's leading block begins, which is also what is in the cache before it.
    """

    emitted_tokens: IntArray
    block_index: IntArray
    start_tokens: IntArray
    """Absolute position of the leading block: the tokens cached before it."""

    @property
    def opens_block(self) -> IntArray:
        """1 where a forward is the first on its block, else 0."""
        return (np.diff(self.block_index, prepend=-1) > 0).astype(np.int64)


def prefilled_tokens(prompt_tokens: int, block: int) -> int:
    """Prompt tokens that the prefill covers: its whole blocks (dInfer, SGLang, HF agree)."""
    return prompt_tokens // block * block


def block_steps(
    request: Request, parameters: BlockParameters, *, least_forwards: int
) -> BlockSteps:
    """Spread the request's forwards over its blocks at the constant pace.

    Blocks are absolute intervals, so the prompt's partial block is the start of the first decode
    block. Every block takes at least *least_forwards*; the block that holds the n-th token ends
    at forward n / pace, rounded to the next whole forward after the previous block's.
    """
    block = parameters.block
    first = prefilled_tokens(request.prompt_tokens, block)
    n_blocks = math.ceil((request.total_tokens - first) / block)
    edges = np.minimum(first + block * np.arange(1, n_blocks + 1), request.total_tokens)
    done_tokens = edges - request.prompt_tokens
    wanted = np.round(done_tokens / parameters.tokens_per_forward).astype(np.int64)
    # Each block needs its least share, so a running maximum of what is left over keeps order.
    floor = least_forwards * np.arange(1, n_blocks + 1)
    ends = floor + np.maximum.accumulate(np.maximum(wanted - floor, 0))
    emitted = np.zeros(int(ends[-1]), dtype=np.int64)
    emitted[ends - 1] = np.diff(done_tokens, prepend=0)
    index = np.searchsorted(ends, np.arange(len(emitted)), side="right")
    return BlockSteps(emitted, index, first + block * index)
