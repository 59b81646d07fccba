"""Requests of a file, as they arrive."""

from collections.abc import Iterator
from itertools import count, repeat

from simulator.load.request_source import RequestSource
from simulator.request import Request


def traced_requests(source: RequestSource, seed: int) -> Iterator[Request]:
    """What *source* takes, in order; raises DocumentError where the file has become wrong."""
    indexes = count()
    for block, block_tokens in source.blocks():
        rows = zip(
            block.arrival_s.tolist(),
            block.prompt_tokens.tolist(),
            block.output_tokens.tolist(),
            repeat(()) if block.prefixes is None else block.prefixes,
            strict=False,
        )
        for arrival_s, prompt, output, prefix in rows:
            index = next(indexes)
            yield Request(index, prompt, output, arrival_s, seed, None, prefix, block_tokens)
