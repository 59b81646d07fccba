"""A transformer without a cache, written from its equations: a whole sequence, every time."""

import torch
from torch.nn.functional import silu

from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.pass_shape import ExpertShape, LayerShape
from kernels_ref.random_weights import ExpertWeights, FeedForward, LayerWeights

Said = tuple[list[int], list[float]]


def predictions(model: ReferenceModel, tokens: list[int], block: int) -> Said:
    """(most likely token, its probability) at every place of *tokens*, block-causal from 0."""
    decoder = model.decoder
    number = torch.arange(len(tokens)) // block
    hidden = number[None, :] > number[:, None]
    stream = decoder.weights.embedding[torch.tensor(tokens)]
    theta = decoder.shape.rotary_theta
    for (_, shape), weights in zip(decoder.shape.unrolled, decoder.weights.layers, strict=True):
        normed = _normed(stream) * weights.attention_norm
        stream = stream + _attention(normed, shape, weights, hidden, theta)
        normed = _normed(stream) * weights.ffn_norm
        if weights.feed_forward is not None:
            stream = stream + _swiglu(normed, weights.feed_forward)
        elif weights.experts is not None and shape.experts is not None:
            stream = stream + _experts(normed, shape.experts, weights.experts)
    logits = _normed(stream) * decoder.weights.final_norm @ decoder.weights.lm_head.T
    logits[:, model.facts.mask_token] = -torch.inf
    probability, token = logits.softmax(dim=-1).max(dim=-1)
    return token.tolist(), probability.tolist()


def _normed(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()


def _turned(heads: torch.Tensor, theta: float) -> torch.Tensor:
    """Pairs (i, i + half) of [places, heads, dim] as complex numbers, turned by their places."""
    half = heads.shape[-1] // 2
    pairs = torch.complex(heads[..., :half], heads[..., half:])
    speed = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(len(heads), dtype=torch.float64)[:, None] * speed
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.cat([turned.real, turned.imag], dim=-1)


def _attention(
    x: torch.Tensor,
    shape: LayerShape,
    weights: LayerWeights,
    hidden: torch.Tensor,
    theta: float,
) -> torch.Tensor:
    heads = (x @ weights.qkv.weight.T).view(len(x), -1, shape.head_dim)
    query, key, value = heads.split([shape.query_heads, shape.kv_heads, shape.kv_heads], dim=1)
    query, key = _turned(_normed(query), theta), _turned(_normed(key), theta)
    group = shape.query_heads // shape.kv_heads
    out = []
    for head in range(shape.query_heads):
        scores = query[:, head] @ key[:, head // group].T / shape.head_dim**0.5
        share = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        out.append(share @ value[:, head // group])
    return torch.cat(out, dim=-1) @ weights.output.weight.T


def _swiglu(x: torch.Tensor, weights: FeedForward) -> torch.Tensor:
    gate, up = (x @ weights.gate_up.weight.T).chunk(2, dim=-1)
    return (silu(gate) * up) @ weights.down.weight.T


def _experts(x: torch.Tensor, shape: ExpertShape, weights: ExpertWeights) -> torch.Tensor:
    """Every token through every expert, weighted by zero where it was not chosen."""
    router = shape.router
    logits = x @ weights.router.T
    scores = logits.sigmoid() if router.score == "sigmoid" else logits.softmax(dim=-1)
    size = shape.count // router.groups
    share = torch.zeros_like(scores)
    for place, row in enumerate(scores.tolist()):
        groups = [range(start, start + size) for start in range(0, shape.count, size)]
        groups.sort(key=lambda group: -sum(sorted(row[e] for e in group)[-2:]))
        allowed = [expert for group in groups[: router.groups_used] for expert in group]
        chosen = sorted(allowed, key=lambda expert: -row[expert])[: router.top_k]
        whole = sum(row[expert] for expert in chosen)
        for expert in chosen:
            share[place, expert] = router.scaling * row[expert] / whole
    gate, up = (x @ weights.gate_up.mT).chunk(2, dim=-1)
    visits = (silu(gate) * up) @ weights.down.mT
    out = (share.T[:, :, None] * visits).sum(dim=0)
    return out if weights.shared is None else out + _swiglu(x, weights.shared)
