"""Entropy-bounded canvases: blocks of uniform noise instead of masks (DiffusionGemma).

The rules are those of SGLang's renoising algorithm for it. Its models are also given a soft
embedding of their last probabilities (self-conditioning); those of this project are not trained for
that, and it is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, Strict

from kernels_ref.decoders import STRICT, Count
from kernels_ref.decoding.batch import Decoding, Group, independent
from kernels_ref.decoding.canvas import Canvas, entropy_nats, within_bound
from kernels_ref.decoding.query import IntArray, Kind, Query
from kernels_ref.decoding.sequence import Sequence as TokenSequence

PROMPT = "causal"
CHECKPOINT = "canvas"
RECORDS = "blocks"
DRAFTER = None

Nats = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Temperature = Annotated[float, Strict(), Field(ge=1e-3, le=1e3, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What DiffusionGemma is published with; its *block* is 256."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["block-entropy"] = "block-entropy"
    block: Count | None = None
    entropy_bound: Nats = 0.1
    """Most entropy of the places before it, in order of entropy, at which a place is accepted."""
    confidence_threshold: Nats = 0.005
    """Mean entropy below which a canvas may be finished."""
    stability: Count = 1
    """Steps before it that a finished canvas's most likely tokens have not changed since."""
    steps: Count = 48
    temperature_first: Temperature = 0.8
    """Of the first step; from there it falls evenly."""
    temperature_last: Temperature = 0.4
    """Of the step that would follow the last one."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent: what a canvas draws depends on seed, request and block alone."""
    return independent([_decode(sequence, parameters) for sequence in sequences])


def _decode(sequence: TokenSequence, parameters: Parameters) -> Decoding:
    """Prompt and finished canvases are encoded causally; that alone is the KV which others see."""
    yield _encode(sequence, 0, sequence.first_start, kind="prefill")
    for block in range(sequence.n_blocks):
        sequence.record.admit(block)
        yield from _denoise(sequence, block, parameters)
        sequence.record.finish(block)
        yield _encode(sequence, sequence.start(block), sequence.start(block + 1), kind="store")
        if sequence.retire(block):
            return


def _encode(sequence: TokenSequence, left: int, right: int, *, kind: Kind) -> Query:
    """Tokens from place *left* up to *right*, each of which sees up to itself."""
    horizon = np.arange(left, right) + 1
    return Query(kind, left, sequence.tokens[left:right].copy(), horizon, right - left)


def _denoise(sequence: TokenSequence, block: int, parameters: Parameters) -> Decoding:
    """Steps of one canvas, until its tokens have settled or no step is left."""
    canvas = Canvas(sequence, block)
    earlier: list[IntArray] = []
    for remaining in range(parameters.steps, 0, -1):
        said = yield canvas.query()
        logits = said.logits.double() / _temperature(parameters, remaining)
        entropy = entropy_nats(logits)
        accepted = within_bound(entropy, parameters.entropy_bound)
        sure = float(entropy.mean()) < parameters.confidence_threshold
        if remaining == 1 or (sure and _is_stable(said.token, earlier, parameters.stability)):
            canvas.finish(said, accepted)
            return
        canvas.renoise(said, logits, accepted)
        earlier.append(said.token)


def _temperature(parameters: Parameters, remaining: int) -> float:
    """Of the step with which *remaining* ones are left, itself included."""
    fall = parameters.temperature_first - parameters.temperature_last
    return parameters.temperature_last + fall * remaining / parameters.steps


def _is_stable(token: IntArray, earlier: list[IntArray], steps: int) -> bool:
    """Whether the last *steps* steps had the same most likely tokens; there must be so many."""
    last = earlier[-steps:]
    return len(last) == steps and all(np.array_equal(token, other) for other in last)
