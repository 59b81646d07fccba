"""Gated wavefront decoding: a window of blocks that denoise together (FlowBlock, section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels_ref.decoders import STRICT, Count, Threshold
from kernels_ref.decoding.batch import Group, independent
from kernels_ref.decoding.sequence import Sequence as TokenSequence
from kernels_ref.decoding.wavefront import packed_row, synchronous

PROMPT = "block-causal"
CHECKPOINT = "self-correcting"
RECORDS = "blocks"
DRAFTER = None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """*window* is W; *theta_spawn* 0.6 is the smallest gate that passes on GSM8K (figure 6)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["gwd"] = "gwd"
    block: Count | None = None
    window: Count = 2
    theta_spawn: Threshold = 0.6
    tau_mask: Threshold = 0.7
    tau_edit: Threshold = 0.5
    post_edit_steps: Count = 16
    batching: Literal["packed", "synchronous"] = "packed"
    """Every row has its own window (section 4.2), or all share one: retire when every row's
    leftmost block is finished, admit by the least ready row (the ablation of figure 5)."""
    full_window: bool = True
    """A forward takes the slots of W blocks, admitted or not (sections 4.1 and 4.2), or those of
    the live ones alone (Algorithm 1)."""
    forced: Literal["every", "leftmost"] = "every"
    """Which live blocks reveal their best mask when none is above the threshold; equation 1 has no
    such rule, every implementation of it does."""
    post_edit_counts: Literal["leftmost", "own"] = "leftmost"
    """Whether a block spends its post-edit steps before it is the leftmost one; not published."""


def decode(sequences: Sequence[TokenSequence], parameters: Parameters) -> Group:
    """Rows are independent when packed, and share a window when synchronous."""
    if parameters.batching == "synchronous":
        return synchronous(sequences, parameters)
    return independent([packed_row(sequence, parameters) for sequence in sequences])
