"""Who sees whom: the one source of every attention mask.

A rule takes index tensors (row of the batch, query, key) that broadcast and says which pairs are
visible. Query i of row r is at absolute position prefix_tokens[r] + i; a key's index is its
absolute position in the row's cache, where the queries' own keys already are. Rows differ in prefix
and in query count; queries beyond a row's count are padding and see nothing, nor are they seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

Rule = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Kind = Literal["whole", "causal", "partial"]


@dataclass(frozen=True, eq=False)
class Visibility:
    """A rule, the rows' lengths that it is about, and whether a kernel needs a mask for it."""

    rule: Rule
    """(row, query, key), int tensors that broadcast -> bool."""
    prefix_tokens: torch.Tensor
    """Cached before the queries, int [rows]."""
    query_tokens: torch.Tensor
    """Of the row's queries those that are not padding, int [rows]."""
    kind: Kind = "partial"
    """Whole: each query sees every key up to the row's last. Causal: up to itself."""

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return len(self.prefix_tokens)

    @property
    def device(self) -> torch.device:
        """Where the lengths lie, and so what the rule answers on."""
        return self.prefix_tokens.device


def whole(prefix_tokens: torch.Tensor, query_tokens: torch.Tensor) -> Visibility:
    """Every query sees its row's prefix and all of its own block: denoising, non-causal drafts."""
    _check_lengths(prefix_tokens, query_tokens)
    present = _present(prefix_tokens, query_tokens)
    return Visibility(present, prefix_tokens, query_tokens, "whole")


def causal(prefix_tokens: torch.Tensor, query_tokens: torch.Tensor) -> Visibility:
    """Every query sees its row up to itself: prefill, one-token decoding, chains."""
    _check_lengths(prefix_tokens, query_tokens)
    present = _present(prefix_tokens, query_tokens)

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= prefix_tokens[row] + query) & present(row, query, key)

    return Visibility(rule, prefix_tokens, query_tokens, "causal")


def block_causal(
    prefix_tokens: torch.Tensor, query_tokens: torch.Tensor, block_tokens: int
) -> Visibility:
    """Every query sees the prefix and the blocks up to its own, of which it sees all.

    Blocks are absolute intervals of *block_tokens*. FlowBlock, equation 5, with the window's keys
    at their absolute places instead of a shared tail; also block-wise prefill, a block buffer
    (dummy slots are padding) and a forward that stores one block and opens the next.
    """
    _check_lengths(prefix_tokens, query_tokens)
    _check_positive("block_tokens", block_tokens)
    present = _present(prefix_tokens, query_tokens)

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        block = (prefix_tokens[row] + query) // block_tokens
        return (key // block_tokens <= block) & present(row, query, key)

    return Visibility(rule, prefix_tokens, query_tokens)


def up_to(
    prefix_tokens: torch.Tensor, query_tokens: torch.Tensor, horizon: torch.Tensor
) -> Visibility:
    """Every query sees the keys before its own *horizon*, int [rows, queries], an absolute place.

    What rows of one batch that decode in different ways have in common: the end of its block
    (block-causal), of the prompt (prefix-full), of the row (whole), or the next place (causal).
    """
    _check_lengths(prefix_tokens, query_tokens)
    present = _present(prefix_tokens, query_tokens)

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key < horizon[row, query]) & present(row, query, key)

    return Visibility(rule, prefix_tokens, query_tokens)


def prefix_full(
    prefix_tokens: torch.Tensor,
    query_tokens: torch.Tensor,
    prompt_tokens: torch.Tensor,
    block_tokens: int,
) -> Visibility:
    """The prompt, *prompt_tokens* [rows], sees all of itself; blocks behind it are block-causal.

    Blocks are counted from the end of the prompt, as Discrete Diffusion Forcing decodes.
    """
    _check_lengths(prefix_tokens, query_tokens)
    _check_lengths(prefix_tokens, prompt_tokens)
    _check_positive("block_tokens", block_tokens)
    present = _present(prefix_tokens, query_tokens)

    def block(row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        behind = position - prompt_tokens[row]
        return torch.where(behind < 0, -1, behind // block_tokens)

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        visible = block(row, key) <= block(row, prefix_tokens[row] + query)
        return visible & present(row, query, key)

    return Visibility(rule, prefix_tokens, query_tokens)


def tree(prefix_tokens: torch.Tensor, ancestors: torch.Tensor) -> Visibility:
    """Every node sees the prefix and its ancestors: a tree of drafts to verify.

    *ancestors* is bool [rows, nodes, nodes]: node i (a query) sees node j, itself included. A row
    with fewer nodes leaves the last ones False. Raises ValueError where it is not square.
    """
    rows, nodes, seen = ancestors.shape
    if nodes != seen or ancestors.dtype != torch.bool:
        rule_text = f"ancestors is a square bool matrix per row, got {nodes} x {seen}"
        raise ValueError(rule_text)
    query_tokens = ancestors.any(dim=2).sum(dim=1)
    _check_lengths(prefix_tokens, query_tokens)
    if rows != len(prefix_tokens):
        rule_text = f"ancestors of {rows} rows for {len(prefix_tokens)} prefixes"
        raise ValueError(rule_text)
    return nodes_from(prefix_tokens, query_tokens, prefix_tokens, ancestors)


def nodes_from(
    prefix_tokens: torch.Tensor,
    query_tokens: torch.Tensor,
    first: torch.Tensor,
    ancestors: torch.Tensor,
) -> Visibility:
    """Every query sees what lies before place *first* of its row, and its ancestors from there on.

    *first* is int [rows]; *ancestors* bool [rows, queries, nodes], node j at place first + j, the
    queries' own among them. Unlike in `tree` some nodes may be in the cache: a tree that grows
    level by level.
    """
    _check_lengths(prefix_tokens, query_tokens)
    _check_lengths(prefix_tokens, first)
    present = _present(prefix_tokens, query_tokens)
    last_query, last_node = (count - 1 for count in ancestors.shape[1:])

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        node = key - first[row]
        # Queries past the last are padding, but the index must still be one.
        seen = ancestors[row, query.clamp(max=last_query), node.clamp(0, last_node)]
        related = seen & (node <= last_node)
        return ((node < 0) | related) & present(row, query, key)

    return Visibility(rule, prefix_tokens, query_tokens)


def sliding(inner: Visibility, window_tokens: int) -> Visibility:
    """*inner*, less the keys that lie *window_tokens* or more before the query."""
    _check_positive("window_tokens", window_tokens)
    inner_rule, prefix_tokens = inner.rule, inner.prefix_tokens

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        near = prefix_tokens[row] + query - key < window_tokens
        return near & inner_rule(row, query, key)

    return Visibility(rule, prefix_tokens, inner.query_tokens)


def visible(visibility: Visibility, rows: range, queries: range, keys: range) -> torch.Tensor:
    """The rule over three ranges, bool [rows, queries, keys]."""
    device = visibility.device
    row, query, key = (torch.arange(r.start, r.stop, device=device) for r in (rows, queries, keys))
    seen = visibility.rule(row[:, None, None], query[:, None], key)
    return seen.expand(len(rows), len(queries), len(keys))


def dense(visibility: Visibility, rows: int, queries: int, keys: int) -> torch.Tensor:
    """Every pair, bool [rows, queries, keys].

    Raises ValueError where *rows* are not as many as the visibility is about.
    """
    if rows != visibility.rows:
        rule = f"the visibility is of {visibility.rows} rows, not {rows}"
        raise ValueError(rule)
    return visible(visibility, range(rows), range(queries), range(keys))


def _present(prefix_tokens: torch.Tensor, query_tokens: torch.Tensor) -> Rule:
    """The query is not padding and the key is in the cache."""

    def rule(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query < query_tokens[row]) & (key < prefix_tokens[row] + query_tokens[row])

    return rule


def _check_lengths(prefix_tokens: torch.Tensor, query_tokens: torch.Tensor) -> None:
    for name, lengths in (("prefix_tokens", prefix_tokens), ("query_tokens", query_tokens)):
        if lengths.ndim != 1 or lengths.is_floating_point():
            rule = f"{name} is int [rows], got {lengths.dtype} {list(lengths.shape)}"
            raise ValueError(rule)
    if len(prefix_tokens) != len(query_tokens):
        rule = f"{len(prefix_tokens)} rows have a prefix and {len(query_tokens)} have queries"
        raise ValueError(rule)


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        rule = f"{name} is at least 1, got {value}"
        raise ValueError(rule)
