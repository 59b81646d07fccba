"""A mixture-of-experts layer: the router's choice, the experts' grouped products, their sum.

Visits (a token at one of its experts) are sorted by expert, so that each expert's are neighbours
and every weight is read once. Nothing looks at the host on a GPU: ends of groups stay there.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import grouped_mm

from kernels_ref.kernels.fused import fused
from kernels_ref.kernels.swiglu import naive_swiglu, swiglu
from kernels_ref.kernels.wide import wide


@dataclass(frozen=True)
class Router:
    """How a token's experts follow from its router logits."""

    top_k: int
    score: Literal["softmax", "sigmoid"] = "softmax"
    renormalise: bool = True
    """Chosen scores are divided by their sum."""
    groups: int = 1
    groups_used: int = 1
    """Experts outside the best *groups_used* of *groups* are not chosen."""
    scaling: float = 1.0
    """Factor on the weights at the end."""

    def check(self, experts: int) -> None:
        """Raise ValueError when *experts* cannot be chosen from as asked."""
        if experts % self.groups:
            msg = f"groups must divide the experts, got {self.groups} groups of {experts}"
            raise ValueError(msg)
        choice = experts // self.groups * self.groups_used
        if not 0 < self.top_k <= choice:
            msg = f"top_k must be 1 to {choice}, the experts of the groups used, got {self.top_k}"
            raise ValueError(msg)


@fused
def _scores(logits: torch.Tensor, score: str) -> torch.Tensor:
    """Scores of all experts in at least float32."""
    precise = wide(logits)
    return precise.sigmoid() if score == "sigmoid" else precise.softmax(dim=-1)


def _group_limited(choice: torch.Tensor, router: Router) -> torch.Tensor:
    """*choice* [tokens, experts] with minus infinity outside each token's best groups.

    A group is as good as its two best experts together (DeepSeek-V3; LLaDA2 routes alike).
    """
    grouped = choice.view(len(choice), router.groups, choice.shape[1] // router.groups)
    best_two = grouped.topk(min(2, grouped.shape[-1]), dim=-1).values.sum(dim=-1)
    used = best_two.topk(router.groups_used, dim=-1).indices
    closed = torch.ones_like(best_two, dtype=torch.bool).scatter(-1, used, value=False)
    limited: torch.Tensor = grouped.masked_fill(closed[..., None], -torch.inf)
    return limited.flatten(-2)


def route(
    logits: torch.Tensor, router: Router, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(experts, weights), both [tokens, top_k], from router *logits* [tokens, experts].

    *bias* [experts] shifts the choice and not the weights. Weights are at least float32. Raises
    ValueError when the router does not fit the number of experts.
    """
    router.check(logits.shape[-1])
    scores = _scores(logits, router.score)
    choice = scores if bias is None else scores + bias
    if router.groups > 1:
        choice = _group_limited(choice, router)
    experts = choice.topk(router.top_k, dim=-1).indices
    weights = scores.gather(-1, experts)
    if router.renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return experts, weights * router.scaling


def _grouped_product(
    visits: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    """*visits* [visits, in], group e ending at *ends*[e], each times its *weights*[e] [out, in]."""
    if visits.is_cuda:
        return grouped_mm(visits, weights.transpose(1, 2), offs=ends)
    out = visits.new_empty(len(visits), weights.shape[1])
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            out[start:end] = visits[start:end] @ weights[expert].T
        start = end
    return out


@fused
def _combined(visits: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """[tokens, hidden], the weighted sum of each token's *visits* [tokens, top_k, hidden]."""
    return (wide(visits) * wide(weights)[..., None]).sum(dim=1).to(visits.dtype)


def grouped_experts(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
) -> torch.Tensor:
    """The weighted sum of each token's experts, [tokens, hidden] in the dtype of *x*.

    *x* is [tokens, hidden], *experts* and *weights* [tokens, top_k], *gate_up* [experts, 2 ffn,
    hidden], *down* [experts, hidden, ffn]. On a GPU the products take bf16 only.
    """
    tokens, top_k = experts.shape
    chosen, order = experts.flatten().sort(stable=True)
    numbers = torch.arange(len(gate_up), device=x.device)
    ends = torch.searchsorted(chosen, numbers, right=True, out_int32=True)
    inner = swiglu(_grouped_product(x[order // top_k], gate_up, ends))
    outer = _grouped_product(inner, down, ends)
    visits = torch.empty_like(outer)
    visits[order] = outer
    return _combined(visits.view(tokens, top_k, x.shape[1]), weights)


def naive_route(
    logits: torch.Tensor, router: Router, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`route` token by token in double precision; weights are float64."""
    wide = logits.double()
    scores = wide.sigmoid() if router.score == "sigmoid" else wide.softmax(dim=-1)
    choice = scores if bias is None else scores + bias.double()
    experts = [_naive_choice(row, router) for row in choice.tolist()]
    weights = []
    for row, chosen in zip(scores.tolist(), experts, strict=True):
        picked = [row[expert] for expert in chosen]
        whole = sum(picked) if router.renormalise else 1.0
        weights.append([score / whole * router.scaling for score in picked])
    return torch.tensor(experts), torch.tensor(weights, dtype=torch.float64)


def _naive_choice(choice: list[float], router: Router) -> list[int]:
    """The experts of one token, best first: groups by their best two, then the best within them."""
    size = len(choice) // router.groups
    groups = [range(start, start + size) for start in range(0, len(choice), size)]
    groups.sort(key=lambda group: -sum(sorted((choice[e] for e in group), reverse=True)[:2]))
    open_experts = [expert for group in groups[: router.groups_used] for expert in group]
    return sorted(open_experts, key=lambda expert: -choice[expert])[: router.top_k]


def naive_grouped_experts(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
) -> torch.Tensor:
    """`grouped_experts` one visit at a time in double precision; float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token, chosen in enumerate(experts.tolist()):
        for slot, expert in enumerate(chosen):
            inner = naive_swiglu(gate_up[expert].double() @ x[token].double())
            out[token] += weights[token, slot].double() * (down[expert].double() @ inner)
    return out
