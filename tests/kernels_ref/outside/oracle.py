"""What transformers says of whole sequences at once: no cache, one block-causal mask."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from kernels_ref.decoding.query import IntArray


def block_causal_logits(model: Any, tokens: IntArray, block: int) -> torch.Tensor:
    """Logits [tokens, vocab] of *tokens* where each sees the blocks up to its own."""
    blocks = torch.arange(len(tokens)) // block
    seen = blocks[None, :] <= blocks[:, None]
    mask = torch.zeros(seen.shape, dtype=model.dtype).masked_fill(~seen, -torch.inf)
    with torch.no_grad(), patch.multiple(torch, **_precision(model)):
        answer = model(
            input_ids=torch.from_numpy(tokens)[None], attention_mask=mask[None, None]
        ).logits
    logits: torch.Tensor = answer[0]
    return logits


def _precision(model: Any) -> dict[str, Any]:
    """In float64 the library's casts to float32 (norms, angles, router) are casts to float64."""
    if model.dtype != torch.float64:
        return {"float32": torch.float32}
    rotary, config = model.model.rotary_emb, model.config.rope_parameters
    turned = 2 * len(rotary.inv_freq)
    exponents = torch.arange(0, turned, 2, dtype=torch.float64) / turned
    rotary.inv_freq = config["rope_theta"] ** -exponents
    return {"float32": torch.float64, "float": torch.float64}


def decoded(
    model: Any,
    prompt: Sequence[int],
    *,
    block: int,
    mask: int,
    ends: tuple[int, ...],
    tau: float,
    most: int,
    shift: bool = False,
) -> IntArray:
    """Block by block, masks of confidence *tau* or more, else the best one; all recomputed.

    The answer behind *prompt*, *most* tokens at most, cut before its first end token.
    """
    end = -(-(len(prompt) + most) // block) * block
    tokens = np.full(end, mask, dtype=np.int64)
    tokens[: len(prompt)] = prompt
    for right in range(len(prompt) // block * block + block, end + 1, block):
        places = np.arange(right - block, right)
        while (tokens[places] == mask).any():
            logits = block_causal_logits(model, tokens[:right], block)
            logits[:, mask] = -torch.inf
            chances = logits.softmax(dim=-1).numpy()[places - (1 if shift else 0)]
            best = np.where(tokens[places] == mask, chances.max(axis=1), -1.0)
            chosen = best >= min(tau, best.max())
            tokens[places[chosen]] = chances.argmax(axis=1)[chosen]
        if np.isin(tokens[max(places[0], len(prompt)) : right], ends).any():
            break
    answer = tokens[len(prompt) : len(prompt) + most]
    found = np.flatnonzero(np.isin(answer, ends))
    return answer[: found[0]] if len(found) else answer
