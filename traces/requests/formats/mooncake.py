"""Mooncake traces: JSON lines, milliseconds, hashes of the prompt's blocks of 512 tokens.

github.com/kvcache-ai/Mooncake, FAST25-release/traces; Qin et al., FAST 2025.
"""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    arrival={"timestamp": "ms"},
    prompt=("input_length",),
    output=("output_length",),
    prefix="hash_ids",
    prefix_block_tokens=512,
)
