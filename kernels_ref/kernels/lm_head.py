"""The LM head on the rows that need it, and the confidence that block decoders read off it."""

import math

import torch

from kernels_ref.kernels.fused import fused
from kernels_ref.kernels.wide import wide


def lm_head(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Logits [n, vocab] of *hidden* [n, hidden] under *weight* [vocab, hidden], in their dtype."""
    return hidden @ weight.T


@fused
def confidence(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(token, probability) of the most likely token of each row of *logits* [n, vocab].

    The soft-max is at least float32. Its maximum is 1 / sum exp(l - l_max), so the other
    probabilities are summed and never written. (Through the log of the sum, logits of ten thousand
    lose four digits.)
    """
    largest, token = logits.max(dim=-1, keepdim=True)
    return token.squeeze(-1), 1 / (wide(logits) - wide(largest)).exp().sum(dim=-1)


def naive_lm_head(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`lm_head` one scalar product at a time in double precision; float64."""
    out = torch.empty(len(hidden), len(weight), dtype=torch.float64)
    for row, state in enumerate(hidden.double()):
        for token, column in enumerate(weight.double()):
            out[row, token] = (state * column).sum()
    return out


def naive_confidence(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`confidence` from every token's probability in double precision; float64."""
    tokens, best = [], []
    for row in logits.double().tolist():
        shares = [math.exp(value - max(row)) for value in row]
        probabilities = [share / sum(shares) for share in shares]
        best.append(max(probabilities))
        tokens.append(probabilities.index(best[-1]))
    return torch.tensor(tokens), torch.tensor(best, dtype=torch.float64)
