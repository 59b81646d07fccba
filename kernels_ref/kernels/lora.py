"""Low-rank adapters beside a linear, switched per token: on for noise positions, off for clean.

Uno drafts with its adapter and verifies without it in one set of weights; within a draft forward
the committed token goes without too. The gate multiplies the narrow product, so a token that is off
costs its arithmetic and changes nothing.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch


def gated_lora(
    x: torch.Tensor,
    down: torch.Tensor,
    up: torch.Tensor,
    gate: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """What the adapter adds to a linear's output: gate x scaling x (x down^T) up^T, [tokens, out].

    *x* is [tokens, in], *down* [rank, in], *up* [out, rank], *gate* [tokens] of 0 and 1, *scaling*
    alpha / rank. Hu et al., 2021.
    """
    return _narrow(x, down, gate, scaling) @ up.T


def _narrow(
    x: torch.Tensor, down: torch.Tensor, gate: torch.Tensor, scaling: float
) -> torch.Tensor:
    """The product with *down*, gated and scaled where it is narrowest."""
    return (x @ down.T) * (gate.to(x.dtype) * scaling)[:, None]


def add_gated_lora(  # noqa: PLR0913, PLR0917 (the adapter is all of them)
    base: torch.Tensor,
    x: torch.Tensor,
    down: torch.Tensor,
    ups: Sequence[torch.Tensor],
    gate: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """Add the adapters of a fused linear onto its output *base* [tokens, sum of outs], in place.

    *down* [rank x len(ups), in] is theirs stacked, so *x* is read once; each of *ups* [out, rank]
    adds to its own columns, in order. Comes back as *base*.
    """
    narrow = _narrow(x, down, gate, scaling).chunk(len(ups), dim=1)
    ends = list(accumulate(len(up) for up in ups))
    for part, up, end in zip(narrow, ups, ends, strict=True):
        base[:, end - len(up) : end].addmm_(part, up.T)
    return base


def naive_gated_lora(
    x: torch.Tensor,
    down: torch.Tensor,
    up: torch.Tensor,
    gate: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """`gated_lora` by the adapter's whole matrix, for the tokens that are on; float64."""
    update = scaling * (up.double() @ down.double())
    out = torch.zeros(len(x), len(up), dtype=torch.float64)
    for token in range(len(x)):
        if gate[token]:
            out[token] = update @ x[token].double()
    return out


def naive_add_gated_lora(  # noqa: PLR0913, PLR0917 (the adapter is all of them)
    base: torch.Tensor,
    x: torch.Tensor,
    down: torch.Tensor,
    ups: Sequence[torch.Tensor],
    gate: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """`add_gated_lora` one adapter after the other, into a new tensor; float64."""
    rank = ups[0].shape[1]
    downs = [down[i * rank : (i + 1) * rank] for i in range(len(ups))]
    added = [naive_gated_lora(x, d, up, gate, scaling) for d, up in zip(downs, ups, strict=True)]
    return base.double() + torch.cat(added, dim=1)
