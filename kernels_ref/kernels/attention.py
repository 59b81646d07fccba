"""Attention of a few or many queries per row over its cached keys and values.

A step prepares its plan once (masks, lengths) and every layer attends by it. Only `attention` is
what a layer costs.

The query heads that share a KV head are packed into the rows of one product, so keys and values are
read once for all of them: FlashAttention-3's packing of grouped queries. From TILE_ROWS queries on
a head fills its tiles alone and is left as it is.
"""

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from kernels_ref.kernels.visibility import Visibility, visible

Backend = Literal["sdpa", "flash", "cudnn", "flex"]

TILE_ROWS = 128
KERNELS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SHAPES = 512
"""Programs that the compiler may keep for one function: one per batch shape."""


@dataclass(frozen=True)
class Run:
    """Adjacent rows, first up to end, with equally many queries and keys: one library call."""

    first: int
    end: int
    query_tokens: int
    key_tokens: int


@dataclass(frozen=True, eq=False)
class Call:
    """A run and how the library masks it."""

    run: Run
    packed: bool
    mask: torch.Tensor | None = None
    """Bool [rows, 1, query rows, keys], query rows as packed."""
    causal: bool = False
    """Square and lower triangular, which the library need not be given."""


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """What the layers of a step share; made by `prepare`."""

    backend: Backend
    rows: int
    queries: int
    keys: int
    query_heads: int
    kv_heads: int
    calls: tuple[Call, ...] = ()
    block_mask: BlockMask | None = None
    packed: bool = False
    """Whether the block mask is over packed query rows."""


def backends(device: torch.device, visibility: Visibility) -> tuple[Backend, ...]:
    """The backends that can attend by *visibility* on *device*, the preferred one first.

    `flash` and `cudnn` take no mask: rows of one length, whole or causal without a prefix. They
    also want a half-precision dtype, which a plan does not know. Waits for the GPU.
    """
    if device.type != "cuda":
        return ("sdpa", "flex")
    runs = _runs(visibility)
    if len(runs) == 1 and _needs_no_mask(visibility, runs[0]):
        return ("flash", "cudnn", "flex")
    return ("flex",)


def prepare(  # noqa: PLR0913 (a step's sizes)
    visibility: Visibility,
    *,
    rows: int,
    queries: int,
    keys: int,
    query_heads: int,
    kv_heads: int,
    backend: Backend | None = None,
) -> AttentionPlan:
    """Everything about a step that its layers share.

    *queries* and *keys* are what the tensors hold per row, padding and unused cache included.
    Without a *backend* the first of `backends` is taken. Reads the lengths back from the GPU.
    Raises ValueError where heads do not divide, a row does not fit its tensors, or the backend
    cannot run here.
    """
    _check_sizes(visibility, rows, queries, keys)
    if kv_heads < 1 or query_heads % kv_heads:
        rule = f"query_heads is a multiple of kv_heads, got {query_heads} and {kv_heads}"
        raise ValueError(rule)
    possible = backends(visibility.device, visibility)
    chosen = possible[0] if backend is None else backend
    if chosen not in possible:
        rule = f"backend {chosen} cannot run here, only {', '.join(possible)}"
        raise ValueError(rule)
    group = query_heads // kv_heads
    sizes = (chosen, rows, queries, keys, query_heads, kv_heads)
    if chosen == "flex":
        packed = _packs_for_flex(queries, group)
        mask = _block_mask(visibility, queries, keys, group if packed else 1)
        return AttentionPlan(*sizes, block_mask=mask, packed=packed)
    calls = tuple(_call(visibility, run, group) for run in _runs(visibility) if run.query_tokens)
    return AttentionPlan(*sizes, calls=calls)


def attention(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, plan: AttentionPlan
) -> torch.Tensor:
    """soft-max(Q K^T / sqrt(head_dim)) V over the visible keys, [rows, queries, heads, head_dim].

    *query* is [rows, queries, query_heads, head_dim], the caches [rows, keys, kv_heads, head_dim],
    all of one float dtype and sized as in the plan, else ValueError. Padding comes back as zeros.
    What the caches hold behind a row's last key is hidden, but must be finite.
    """
    _check_tensors(query, key_cache, value_cache, plan)
    if plan.block_mask is not None:
        return _flex(query, key_cache, value_cache, plan)
    kernel = KERNELS.get(plan.backend)
    with sdpa_kernel(kernel) if kernel is not None else nullcontext():
        return _library(query, key_cache, value_cache, plan)


def _runs(visibility: Visibility) -> list[Run]:
    """Neighbours of equal lengths together; one read-back of all lengths."""
    both = torch.stack((visibility.query_tokens, visibility.prefix_tokens)).tolist()
    lengths = [(tokens, prefix + tokens) for tokens, prefix in zip(*both, strict=True)]
    runs, first = [], 0
    for (query_tokens, key_tokens), same in itertools.groupby(lengths):
        end = first + len(list(same))
        runs.append(Run(first, end, query_tokens, key_tokens))
        first = end
    return runs


def _is_square_causal(visibility: Visibility, run: Run) -> bool:
    return visibility.kind == "causal" and run.key_tokens == run.query_tokens > 1


def _is_whole(visibility: Visibility, run: Run) -> bool:
    one_query = visibility.kind == "causal" and run.query_tokens == 1
    return visibility.kind == "whole" or one_query


def _needs_no_mask(visibility: Visibility, run: Run) -> bool:
    return _is_whole(visibility, run) or _is_square_causal(visibility, run)


def _call(visibility: Visibility, run: Run, group: int) -> Call:
    """How the library attends over a run; a mask only where something is hidden."""
    if _is_square_causal(visibility, run):
        return Call(run, packed=False, causal=True)
    packed = group > 1 and run.query_tokens < TILE_ROWS
    if _is_whole(visibility, run):
        return Call(run, packed)
    rows, queries = range(run.first, run.end), range(run.query_tokens)
    mask = visible(visibility, rows, queries, range(run.key_tokens))
    if bool(mask.all()):
        return Call(run, packed)
    return Call(run, packed, mask.repeat_interleave(group if packed else 1, dim=1)[:, None])


def _packed(query: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """[rows, queries, query_heads, d] -> [rows, kv_heads, queries x group, d]."""
    rows, queries, _, head_dim = query.shape
    grouped = query.reshape(rows, queries, kv_heads, -1, head_dim)
    return grouped.transpose(1, 2).reshape(rows, kv_heads, -1, head_dim)


def _unpacked(out: torch.Tensor, queries: int) -> torch.Tensor:
    """The inverse of `_packed`."""
    rows, kv_heads, _, head_dim = out.shape
    grouped = out.reshape(rows, kv_heads, queries, -1, head_dim)
    return grouped.transpose(1, 2).reshape(rows, queries, -1, head_dim)


def _library(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, plan: AttentionPlan
) -> torch.Tensor:
    if len(plan.calls) == 1 and _covers(plan.calls[0].run, plan):
        return _attend(query, key_cache, value_cache, plan.calls[0])
    out = torch.zeros_like(query)
    # One call per run of rows, by measurement (16 rows, 8 queries, one thread): fifteen of 64 keys
    # and one of 2048 take a tenth of one masked call over 2048 keys each; lengths that nearly
    # agree lose 8 % at 480 keys and a third at 24.
    for call in plan.calls:
        run = call.run
        part = slice(run.first, run.end)
        asked = query[part, : run.query_tokens]
        answer = _attend(asked, key_cache[part], value_cache[part], call)
        out[part, : run.query_tokens] = answer
    return out


def _covers(run: Run, plan: AttentionPlan) -> bool:
    return run.end - run.first == plan.rows and run.query_tokens == plan.queries


def _attend(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, call: Call
) -> torch.Tensor:
    queries, kv_heads = query.shape[1], key_cache.shape[2]
    out = scaled_dot_product_attention(
        _packed(query, kv_heads) if call.packed else query.transpose(1, 2),
        key_cache[:, : call.run.key_tokens].transpose(1, 2),
        value_cache[:, : call.run.key_tokens].transpose(1, 2),
        attn_mask=call.mask,
        is_causal=call.causal,
        enable_gqa=not call.packed and query.shape[2] != kv_heads,
    )
    return _unpacked(out, queries) if call.packed else out.transpose(1, 2)


def _packs_for_flex(queries: int, group: int) -> bool:
    """Whether to pack in front of the kernel.

    The decode kernel, which also splits the keys, packs by itself where group is a power of two and
    the packed rows fit a tile; many queries fill their tiles.
    """
    packs_itself = group & (group - 1) == 0 and queries * group <= TILE_ROWS
    return group > 1 and queries < TILE_ROWS and not packs_itself


def _block_mask(visibility: Visibility, queries: int, keys: int, group: int) -> BlockMask:
    """Which tiles of keys each tile of query rows needs, each row having *group* packed heads."""
    rule = visibility.rule

    def sees(
        row: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return rule(row, query // group, key)

    sizes = (visibility.rows, None, queries * group, keys)
    mask = create_block_mask(sees, *sizes, device=visibility.device)
    if queries * group >= TILE_ROWS:
        return mask
    # A tile that the queries do not fill is never whole. Told of whole tiles, the decode kernel
    # would divide the capacity among its key splits, and not what the row really has to read.
    return BlockMask.from_kv_blocks(
        mask.kv_num_blocks,
        mask.kv_indices,
        BLOCK_SIZE=mask.BLOCK_SIZE,
        mask_mod=sees,
        seq_lengths=mask.seq_lengths,
    )


# Without the extra results that it can be asked for.
_EAGER_FLEX = cast("Callable[..., torch.Tensor]", flex_attention)


@cache
def _compiled_flex() -> Callable[..., torch.Tensor]:
    # With a symbolic batch size the compiler drops its decode kernel, hence a program per shape;
    # beyond the limit it would quietly run uncompiled.
    settings = torch._dynamo.config  # noqa: SLF001 (has no other name)
    settings.recompile_limit = max(settings.recompile_limit, SHAPES)
    settings.accumulated_recompile_limit = max(settings.accumulated_recompile_limit, SHAPES)
    return torch.compile(_EAGER_FLEX, dynamic=False)


def _flex(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, plan: AttentionPlan
) -> torch.Tensor:
    kernel = _compiled_flex() if query.is_cuda else _EAGER_FLEX
    out = kernel(
        _packed(query, plan.kv_heads) if plan.packed else query.transpose(1, 2),
        key_cache.transpose(1, 2),
        value_cache.transpose(1, 2),
        block_mask=plan.block_mask,
        enable_gqa=not plan.packed and plan.query_heads != plan.kv_heads,
    )
    return _unpacked(out, plan.queries) if plan.packed else out.transpose(1, 2)


def _check_sizes(visibility: Visibility, rows: int, queries: int, keys: int) -> None:
    if rows != visibility.rows:
        rule = f"the visibility is of {visibility.rows} rows, not {rows}"
        raise ValueError(rule)
    for run in _runs(visibility):
        prefix_tokens = run.key_tokens - run.query_tokens
        if run.query_tokens < 0 or prefix_tokens < 0:
            rule = f"negative lengths: {prefix_tokens} before {run.query_tokens} queries"
            raise ValueError(rule)
        if run.query_tokens > queries or run.key_tokens > keys:
            rule = (
                f"row {run.first} has {run.query_tokens} queries of {queries} "
                f"and {run.key_tokens} keys of {keys}"
            )
            raise ValueError(rule)


def _check_tensors(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, plan: AttentionPlan
) -> None:
    head_dim = query.shape[-1]
    asked = (plan.rows, plan.queries, plan.query_heads, head_dim)
    cached = (plan.rows, plan.keys, plan.kv_heads, head_dim)
    for name, tensor, shape in (
        ("query", query, asked),
        ("key_cache", key_cache, cached),
        ("value_cache", value_cache, cached),
    ):
        if tuple(tensor.shape) != shape:
            rule = f"{name} is {list(tensor.shape)}, the plan is for {list(shape)}"
            raise ValueError(rule)


def naive_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    visibility: Visibility,
) -> torch.Tensor:
    """`attention` one query and head at a time over the keys that its rule allows; float32."""
    out = torch.zeros(query.shape)
    group = query.shape[2] // key_cache.shape[2]
    keys = torch.arange(key_cache.shape[1])
    for row, index, head in itertools.product(*map(range, query.shape[:3])):
        seen = visibility.rule(torch.tensor(row), torch.tensor(index), keys)
        if not seen.any():
            continue
        key = key_cache[row, seen, head // group].float()
        value = value_cache[row, seen, head // group].float()
        scores = key @ query[row, index, head].float() / query.shape[-1] ** 0.5
        out[row, index, head] = torch.softmax(scores, dim=0) @ value
    return out
