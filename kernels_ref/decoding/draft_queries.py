"""Draft queries that several decoders ask."""

import numpy as np
import torch

from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.query import Move, Query
from kernels_ref.decoding.verifying import causal


def noise_draft(row: Continuation, block: int, moved: Move | None = None) -> Query:
    """Uno: the newest token with the target's own weights, and noise with the adapters on.

    So the first logits are the target's, and only the KV of the newest token will be seen again.
    """
    noise = row.noise(block - 1)
    adapted = np.arange(block) > 0
    tokens = np.append(row.last, noise)
    return causal("draft", row.stored_tokens, tokens, adapted=adapted, moved=moved)


def mask_draft(
    row: Continuation,
    block: int,
    *,
    features: torch.Tensor | None = None,
    adapted: bool = False,
) -> Query:
    """The newest token and masks that all see one another; of the masks there are logits."""
    left = row.stored_tokens
    tokens = np.full(block, row.facts.mask_token)
    tokens[0] = row.last
    return Query(
        "draft",
        left,
        tokens,
        np.full(block, left + block),
        block,
        asked=1,
        adapted=np.full(block, adapted) if adapted else None,
        features=features,
    )


def taking_in(row: Continuation, features: torch.Tensor) -> Query:
    """EAGLE-3's first draft: *features* [places, width] of the last places with KV.

    The drafter has each beside the token behind it, so its place i predicts the token at i + 2. It
    drafts behind the newest token alone.
    """
    left = row.stored_tokens - len(features)
    tokens = row.tokens[left + 1 :]
    return causal("draft", left, tokens, asked=len(tokens) - 1, features=features)
