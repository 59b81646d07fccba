"""The tables of a trace of blocks: their columns and types.

Forwards of a request are numbered from 0, its prefill included. The lists of `blocks` have one
entry per local step: a forward that updated the block, told as it was before the update.
"""

from types import MappingProxyType
from typing import Final

import pyarrow as pa

from traces.columns import WORD, given, integers, lists, requests_schema

KINDS: Final = ("prefill", "denoise", "store", "fused-store")
"""Kinds of forwards. A fused store denoises too, so it is counted among the denoising ones."""
FORWARDS: Final = MappingProxyType(
    {
        "prefill_forwards": ("prefill",),
        "denoise_forwards": ("denoise", "fused-store"),
        "store_forwards": ("store",),
    }
)
"""Columns of `requests`, and the kinds of forwards that each counts."""
LOCAL_LISTS: Final = ("masked", "ready", "revealed", "edited", "agreeing")
"""Of each local step: masks; of them those above the threshold; masks that became tokens; tokens
that were overwritten; tokens that the model would choose again."""

SCHEMAS: Final = MappingProxyType(
    {
        "requests": requests_schema(*FORWARDS),
        "blocks": pa.schema(
            [
                *integers("request", "block", "admitted", "finished", "retired"),
                *(lists(name, pa.int16()) for name in LOCAL_LISTS),
            ]
        ),
        "steps": pa.schema(
            [
                *integers("request", "step"),
                given("kind", WORD),
                *integers("prefix_tokens", "query_tokens", "padded_tokens", "logit_rows"),
                *integers("window_left", "window_right"),
                *integers("revealed", "edited", "committed_tokens"),
            ]
        ),
    }
)
"""Columns and types by table."""
