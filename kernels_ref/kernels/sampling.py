"""Sampling a token from logits: temperature, then top-k, then top-p; greedy at temperature 0."""

import math

import torch

from kernels_ref.kernels.wide import wide


def _check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raise ValueError for a setting that leaves no token, or no distribution."""
    if not (temperature >= 0 and math.isfinite(temperature)):
        msg = f"temperature must be finite and at least 0, got {temperature}"
        raise ValueError(msg)
    if top_k is not None and top_k < 1:
        msg = f"top_k must be at least 1, got {top_k}"
        raise ValueError(msg)
    if top_p is not None and not 0 < top_p <= 1:
        msg = f"top_p must be above 0 and at most 1, got {top_p}"
        raise ValueError(msg)


def _one_hot(logits: torch.Tensor) -> torch.Tensor:
    """All probability on the first largest logit of each row."""
    best = logits.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(wide(logits)).scatter(-1, best, 1.0)


def sampling_probabilities(
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> torch.Tensor:
    """Probabilities [n, vocab] that a token is drawn with from *logits* [n, vocab], in `wide`.

    The *top_k* largest logits stay (of equal ones the first), and of these the fewest that hold
    *top_p* of their probability. Raises ValueError for a setting out of range.
    """
    _check(temperature, top_k, top_p)
    if temperature == 0:
        return _one_hot(logits)
    scaled = wide(logits) / temperature
    # Rounded sums reach 1 before the last tokens do, so 1 is not a limit to compare with.
    limit = None if top_p == 1 else top_p
    if top_k is None and limit is None:
        return scaled.softmax(dim=-1)
    ordered, index = scaled.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -torch.inf
    kept = ordered.softmax(dim=-1)
    if limit is not None:
        before = kept.cumsum(dim=-1) - kept
        kept = torch.where(before < limit, kept, 0.0)
    return torch.zeros_like(kept).scatter(-1, index, kept / kept.sum(dim=-1, keepdim=True))


def sample(
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """One token [n] for each row of *logits* [n, vocab]; see `sampling_probabilities`.

    Exponential clocks run at the rates p: the first to ring is token i with probability p_i. So a
    draw is an arg-max, without a cumulative sum or a look at the host.
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    chance = sampling_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    clock = torch.empty_like(chance).exponential_(generator=generator)
    return (chance / clock).argmax(dim=-1)


def naive_sampling_probabilities(
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> torch.Tensor:
    """`sampling_probabilities` row by row on sorted lists in double precision; float64."""
    rows = [_naive_row(row, temperature, top_k, top_p) for row in logits.double().tolist()]
    return torch.tensor(rows, dtype=torch.float64)


def _naive_row(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None
) -> list[float]:
    """Probabilities of one row: candidates in falling order are taken until they suffice."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    order = order[: 1 if temperature == 0 else top_k]
    share = {t: math.exp((logits[t] - logits[order[0]]) / (temperature or 1.0)) for t in order}
    enough = (1.0 if top_p is None else top_p) * sum(share.values())
    taken: dict[int, float] = {}
    for token in order:
        if top_p is None or sum(taken.values()) < enough:
            taken[token] = share[token]
    return [taken.get(token, 0.0) / sum(taken.values()) for token in range(len(logits))]


def naive_sample(
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """`sample` by walking up the cumulative probability of each row; other draws, same law."""
    chances = naive_sampling_probabilities(
        logits, temperature=temperature, top_k=top_k, top_p=top_p
    )
    tokens = []
    for row in chances.tolist():
        level = float(torch.rand((), generator=generator, dtype=torch.float64))
        reached, token = row[0], 0
        while reached <= level and token < len(row) - 1:
            token += 1
            reached += row[token]
        tokens.append(token)
    return torch.tensor(tokens)
