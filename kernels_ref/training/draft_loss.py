"""How far a drafter's distributions are from its target's, place by place."""

import numpy as np
import torch

from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.batches import FloatArray
from kernels_ref.training.draft_recipe import LossStage


def draft_loss(
    log_q: torch.Tensor, log_p: torch.Tensor, weights: FloatArray, stage: LossStage
) -> torch.Tensor:
    """Weighted mean over places of the losses of *stage*, nats.

    *log_q* and *log_p* are log-probabilities [rows, places, tokens] of drafter and target over the
    tokens that the drafter knows; *weights* [rows, places]. L_DCD is the divergence
    KL(drafter || target), L_TV the sum of absolute differences of probabilities (Uno, equations 9
    and 10).
    """
    q, p = log_q.exp(), log_p.exp()
    by_place = (
        stage.consistency * (q * (log_q - log_p)).sum(dim=-1)
        + stage.total_variation * (q - p).abs().sum(dim=-1)
        - stage.cross_entropy * (p * log_q).sum(dim=-1)
    )
    share = torch.from_numpy(np.ascontiguousarray(weights)).to(by_place.dtype)
    return (by_place * share).sum() / share.sum()


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor | None = None) -> torch.Tensor:
    """Of *logits* [.., vocab] without the mask, which is never said; of *tokens* alone if given."""
    said = logits[..., MASK + 1 :].log_softmax(dim=-1)
    return said if tokens is None else said[..., tokens.long() - (MASK + 1)]
