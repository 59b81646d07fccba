"""Packed: what the rows of a batch ask, as the tensors of one dense forward."""

from dataclasses import dataclass

import numpy as np
import torch

from kernels_ref.decoding.query import IntArray, Query
from kernels_ref.kernels.visibility import Visibility, nodes_from, up_to
from kernels_ref.passes import Batch

Queries = list[Query | None]


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows side by side, as wide as the widest; a row without a query is padding alone."""

    tokens: torch.Tensor
    """int64 [rows, widest], the mask where a row has no query."""
    positions: torch.Tensor
    """int64 [rows, widest], in the text."""
    visibility: Visibility
    gate: torch.Tensor | None
    """[rows, widest], 1 where the adapters are on; None where they are on nowhere."""

    @property
    def widest(self) -> int:
        """Slots of a row."""
        return self.tokens.shape[1]

    @property
    def batch(self) -> Batch:
        """What the layers of the forward share."""
        seen = self.visibility
        gate = None if self.gate is None else self.gate.flatten()
        lengths = seen.prefix_tokens, seen.query_tokens
        return Batch(seen.rows, self.widest, self.positions, *lengths, gate)


def packed(
    queries: Queries,
    *,
    mask_token: int,
    capacity_tokens: int,
    device: torch.device | None = None,
) -> Packed:
    """The *queries* of a batch on *device*, the CPU if None.

    Dummies behind the end of the cache have no place and are cut.
    """
    widest = max(query.padded for query in queries if query is not None)
    widest = min(widest, capacity_tokens)
    rows = len(queries)
    tokens = np.full((rows, widest), mask_token)
    horizon, positions = np.zeros((2, rows, widest), dtype=np.int64)
    gate = np.zeros((rows, widest), dtype=np.bool_)
    lengths = np.zeros((2, rows), dtype=np.int64)
    for row, query in enumerate(queries):
        if query is not None:
            count = len(query.tokens)
            tokens[row, :count] = query.tokens
            horizon[row, :count] = query.horizon
            lengths[:, row] = query.left, count
            gate[row, :count] = False if query.adapted is None else query.adapted
        positions[row] = lengths[0, row] + np.arange(widest)
        if query is not None and query.tree is not None:
            positions[row, : len(query.tokens)] = query.tree.positions
    return Packed(
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(positions).to(device),
        _visibility(queries, lengths, horizon, device),
        torch.from_numpy(gate).to(device) if gate.any() else None,
    )


def _visibility(
    queries: Queries, lengths: IntArray, horizon: IntArray, device: torch.device | None
) -> Visibility:
    prefix_tokens, query_tokens = torch.from_numpy(lengths).to(device)
    if all(query is None or query.tree is None for query in queries):
        return up_to(prefix_tokens, query_tokens, torch.from_numpy(horizon).to(device))
    first = np.array([_first(query) for query in queries])
    widest = max(query.right - start for query, start in zip(queries, first, strict=True) if query)
    ancestors = np.zeros((*horizon.shape, int(widest)), dtype=np.bool_)
    for row, query in enumerate(queries):
        if query is not None:
            seen = _seen(query)
            ancestors[row, : len(seen), : seen.shape[1]] = seen
    trees = torch.from_numpy(first).to(device), torch.from_numpy(ancestors).to(device)
    return nodes_from(prefix_tokens, query_tokens, *trees)


def _first(query: Query | None) -> int:
    """From where on a row's keys are spelled out: its tree, or else its own queries."""
    if query is None:
        return 0
    return query.left if query.tree is None else query.tree.first


def _seen(query: Query) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    if query.tree is not None:
        return query.tree.ancestors
    places = query.left + np.arange(len(query.tokens))
    return places < query.horizon[:, None]
