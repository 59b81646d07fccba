"""Lengths without arrivals, as tables of ShareGPT and summarisation sets have them."""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    prompt=("prompt_tokens", "num_prefill_tokens"), output=("output_tokens", "num_decode_tokens")
)
