"""Keys and values in place: every row of a batch stores a position's entry at that position.

One preallocated tensor [rows, capacity, ...] per layer, for keys and for values. A window of
queries is gathered at the row's own left edge, its new entries are scattered to their absolute
positions, and retiring a block moves nothing (FlowBlock, equations 4 and 6). None of the fast paths
waits for the GPU, so they can be captured in a CUDA graph.
"""

import torch

from kernels_ref.kernels.fused import fused


def scatter_kv(
    cache: torch.Tensor, new: torch.Tensor, offsets: torch.Tensor, query_tokens: torch.Tensor
) -> None:
    """Write *new* [rows, queries, ...] into *cache* [rows, capacity, ...], in place.

    Query i of row r goes to position offsets[r] + i if i < query_tokens[r] (both int, [rows]); the
    rest is padding. Raises ValueError where the shapes disagree, there are more queries than
    places, or, on the CPU, an entry would lie outside the cache (on a GPU it is left out, since to
    look would be to wait).
    """
    if new.shape[0] != cache.shape[0] or new.shape[2:] != cache.shape[2:]:
        rule = f"new entries {list(new.shape)} do not fit a cache {list(cache.shape)}"
        raise ValueError(rule)
    if new.shape[1] > cache.shape[1]:
        rule = f"{new.shape[1]} queries exceed a capacity of {cache.shape[1]}"
        raise ValueError(rule)
    if cache.is_cuda:
        scatter_by_index(cache, new, offsets, query_tokens)
    else:
        _scatter_by_row(cache, new, offsets.tolist(), query_tokens.tolist())


def _scatter_by_row(
    cache: torch.Tensor, new: torch.Tensor, offsets: list[int], query_tokens: list[int]
) -> None:
    """A copy per row: on a CPU several times faster than index arithmetic for 1 to 32 rows."""
    for offset, tokens in zip(offsets, query_tokens, strict=True):
        if tokens > 0 and not 0 <= offset <= cache.shape[1] - tokens:
            rule = f"{tokens} tokens at {offset} do not fit a capacity of {cache.shape[1]}"
            raise ValueError(rule)
    for row, (offset, tokens) in enumerate(zip(offsets, query_tokens, strict=True)):
        cache[row, offset : offset + tokens] = new[row, :tokens]


@fused
def scatter_by_index(
    cache: torch.Tensor, new: torch.Tensor, offsets: torch.Tensor, query_tokens: torch.Tensor
) -> None:
    """`scatter_kv` in one indexed write that never looks at the host: what a GPU runs."""
    capacity = cache.shape[1]
    rows = torch.arange(new.shape[0], device=cache.device)[:, None]
    queries = torch.arange(new.shape[1], device=cache.device)
    wanted = offsets[:, None] + queries
    written = (queries < query_tokens[:, None]) & (wanted >= 0) & (wanted < capacity)
    # Padding writes back what it finds. Wrapped around, it meets no place that is written.
    places = wanted % capacity
    kept = cache[rows, places]
    written = written.reshape(*written.shape, *[1] * (new.ndim - 2))
    cache.index_put_((rows, places), torch.where(written, new.to(cache.dtype), kept))


@fused
def gather_window(
    values: torch.Tensor, left: torch.Tensor, width: torch.Tensor, max_width: int
) -> torch.Tensor:
    """Entries left[r] to left[r] + width[r] of *values* [rows, length, ...].

    [rows, max_width, ...]; beyond its width, and beyond the length, a row holds zeros. *left* and
    *width* are int, [rows].
    """
    rows = torch.arange(values.shape[0], device=values.device)[:, None]
    offsets = torch.arange(max_width, device=values.device)
    places = left[:, None] + offsets
    present = (offsets < width[:, None]) & (places >= 0) & (places < values.shape[1])
    found = values[rows, places.clamp(0, values.shape[1] - 1)]
    present = present.reshape(*present.shape, *[1] * (values.ndim - 2))
    return torch.where(present, found, torch.zeros((), dtype=values.dtype, device=values.device))


def move_kv(
    cache: torch.Tensor, sources: torch.Tensor, target: torch.Tensor, tokens: torch.Tensor
) -> None:
    """Make an accepted tree path contiguous, in place: entry sources[r, i] to target[r] + i.

    For i < tokens[r]; *sources* is int [rows, longest path] of absolute positions, *target* and
    *tokens* int [rows]. Old and new places may overlap. Raises ValueError as `scatter_kv`, and on
    the CPU where a source lies outside the cache.
    """
    _check_sources(sources, tokens, cache.shape[1])
    rows = torch.arange(cache.shape[0], device=cache.device)[:, None]
    aside = cache[rows, sources.clamp(0, cache.shape[1] - 1)]
    scatter_kv(cache, aside, target, tokens)


def _check_sources(sources: torch.Tensor, tokens: torch.Tensor, capacity: int) -> None:
    if sources.is_cuda or tokens.is_cuda:
        return
    for row, count in zip(sources.tolist(), tokens.tolist(), strict=True):
        outside = [source for source in row[:count] if not 0 <= source < capacity]
        if outside:
            rule = f"source {outside[0]} lies outside a capacity of {capacity}"
            raise ValueError(rule)


def naive_scatter_kv(
    cache: torch.Tensor, new: torch.Tensor, offsets: torch.Tensor, query_tokens: torch.Tensor
) -> torch.Tensor:
    """The cache after `scatter_kv`, as a new tensor, entry by entry."""
    out = cache.clone()
    for row in range(len(cache)):
        for query in range(int(query_tokens[row])):
            out[row, int(offsets[row]) + query] = new[row, query]
    return out


def naive_gather_window(
    values: torch.Tensor, left: torch.Tensor, width: torch.Tensor, max_width: int
) -> torch.Tensor:
    """`gather_window` entry by entry."""
    out = torch.zeros(len(values), max_width, *values.shape[2:], dtype=values.dtype)
    for row in range(len(values)):
        for offset in range(min(int(width[row]), max_width)):
            if int(left[row]) + offset < values.shape[1]:
                out[row, offset] = values[row, int(left[row]) + offset]
    return out


def naive_move_kv(
    cache: torch.Tensor, sources: torch.Tensor, target: torch.Tensor, tokens: torch.Tensor
) -> torch.Tensor:
    """The cache after `move_kv`, as a new tensor, entry by entry."""
    out = cache.clone()
    for row in range(len(cache)):
        for moved in range(int(tokens[row])):
            out[row, int(target[row]) + moved] = cache[row, int(sources[row, moved])]
    return out
