"""Block diffusion with a constant pace: which block a forward works on and when blocks finish."""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, Strict

from simulator.pace import ConstantPace
from simulator.request import Request
from simulator.schedule import IntArray, Pass, Schedule, loads

Block = Annotated[int, Strict(), Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
BlockCount = Annotated[int, Strict(), Field(ge=1, le=64)]
TokensPerForward = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class BlockParameters:
    """Denoising in blocks of *block* tokens, at a constant pace or as a trace did.

    Exactly one of *tokens_per_forward* and *trace* is given.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    policy: str
    block: Block = 32
    tokens_per_forward: TokensPerForward | None = None
    """Mean over every decode forward, those that only store KV included, and no prefill."""
    trace: str | None = None
    """A captured trace of blocks: its name, or the path of its folder."""

    @property
    def pace(self) -> ConstantPace:
        """The constant pace; one token per forward where a trace says."""
        return ConstantPace(self.tokens_per_forward or 1.0)

    @property
    def shares_batch(self) -> bool:
        """Whether what a request does depends on who is in its batch."""
        return False


@dataclass(frozen=True, kw_only=True)
class LiveBlockParameters(BlockParameters):
    """A number of live blocks that changes from forward to forward."""

    live_blocks: BlockCount = 2
    """Live blocks of every forward at a constant pace, which does not say how many there are."""


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
    request: Request,
    parameters: BlockParameters,
    *,
    least_forwards: int,
    from_prompt: bool = False,
) -> BlockSteps:
    """Spread the request's forwards over its blocks at the constant pace.

    Blocks are absolute intervals, so the prompt's partial block is the start of the first decode
    block, unless they are counted *from_prompt*, from its end. Every block takes at least
    *least_forwards*; the block that holds the n-th token ends at forward n / pace, rounded to the
    next whole forward after the previous block's.
    """
    block = parameters.block
    whole = prefilled_tokens(request.prompt_tokens, block)
    first = request.prompt_tokens if from_prompt else whole
    n_blocks = math.ceil((request.total_tokens - first) / block)
    edges = np.minimum(first + block * np.arange(1, n_blocks + 1), request.total_tokens)
    done_tokens = edges - request.prompt_tokens
    wanted = np.round(done_tokens / parameters.pace.mean_tokens).astype(np.int64)
    # Each block needs its least share, so a running maximum of what is left over keeps order.
    floor = least_forwards * np.arange(1, n_blocks + 1)
    ends = floor + np.maximum.accumulate(np.maximum(wanted - floor, 0))
    emitted = np.zeros(int(ends[-1]), dtype=np.int64)
    emitted[ends - 1] = np.diff(done_tokens, prepend=0)
    index = np.searchsorted(ends, np.arange(len(emitted)), side="right")
    return BlockSteps(emitted, index, first + block * index)


def fused_schedule(request: Request, parameters: BlockParameters) -> Schedule:
    """One block at a time, stored beside the first forward of the next one.

    That forward carries both blocks, so it has 2 x block queries and LM-head rows (dInfer).
    """
    steps = block_steps(request, parameters, least_forwards=1)
    carries = steps.opens_block * (steps.block_index > 0)
    query = parameters.block * (1 + carries)
    context = steps.start_tokens - parameters.block * carries
    return denoising_schedule(steps.emitted_tokens, query, context, request, parameters)


def separate_schedule(
    request: Request, parameters: BlockParameters, *, from_prompt: bool = False
) -> Schedule:
    """One block at a time, and a forward to store it, whose tokens came out one forward earlier.

    The last block's store has no reader, so there is none.
    """
    steps = block_steps(request, parameters, least_forwards=2, from_prompt=from_prompt)
    emitted, context = steps.emitted_tokens[1:], steps.start_tokens[:-1]
    made = denoising_schedule(emitted, parameters.block, context, request, parameters)
    return replace(made, prefill_tokens=request.prompt_tokens) if from_prompt else made


def live_block_schedule(request: Request, parameters: LiveBlockParameters) -> Schedule:
    """A constant number of live blocks, stored by the forward after the one that completes them."""
    steps = block_steps(request, parameters, least_forwards=1)
    query = parameters.live_blocks * parameters.block
    return denoising_schedule(steps.emitted_tokens, query, steps.start_tokens, request, parameters)


def denoising_schedule(
    emitted_tokens: IntArray,
    query: IntArray | int,
    context: IntArray,
    request: Request,
    parameters: BlockParameters,
) -> Schedule:
    """One pass a forward of so many *query* tokens and LM-head rows, behind whole prompt blocks."""
    denoise = loads(len(emitted_tokens), query=query, context=context, logits=query)
    prefill = prefilled_tokens(request.prompt_tokens, parameters.block)
    return Schedule(emitted_tokens, (Pass("denoise", denoise),), prefill_tokens=prefill)
