"""The tables of a trace of iterations, each a draft and its verification: columns and types.

Forwards and iterations of a request are numbered from 0. A forward belongs to an iteration, a
prefill to the iteration -1. Of `steps`, the adapter's tokens are queries that go through it,
feature tokens are hidden states of the target that a drafter takes in, and moved tokens are cached
ones that are copied afterwards, so that the path of a tree that was accepted is without gaps.
"""

from types import MappingProxyType
from typing import Final

import pyarrow as pa

from traces.columns import WORD, given, integers, requests_schema

FORWARDS: Final = MappingProxyType(
    {
        "prefill_forwards": ("prefill",),
        "draft_forwards": ("draft",),
        "verify_forwards": ("verify",),
    }
)
"""Columns of `requests`, and the kinds of forwards that each counts. Autoregression verifies."""
KINDS: Final = ("prefill", "draft", "verify")

SCHEMAS: Final = MappingProxyType(
    {
        "requests": requests_schema("iterations", *FORWARDS),
        # drafted is the longest path of drafts, nodes all drafts that are verified; accepted is
        # told as it was before the end of the output cut the iteration, emitted is what was kept.
        "iterations": pa.schema(
            [
                *integers("request", "iteration", "prefix_tokens"),
                *integers("drafted", "nodes", "accepted", "emitted"),
                given("cut", pa.bool_()),
            ]
        ),
        "steps": pa.schema(
            [
                *integers("request", "step", "iteration"),
                given("kind", WORD),
                *integers("prefix_tokens", "query_tokens", "logit_rows"),
                *integers("adapter_tokens", "feature_tokens", "moved_tokens"),
            ]
        ),
    }
)
"""Columns and types by table."""
