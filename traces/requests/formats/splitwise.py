"""Traces as Vidur keeps them: CSV, seconds since the first request, tokens to prefill and decode.

github.com/microsoft/vidur, data/processed_traces; its splitwise_conv is Azure's conversation trace.
"""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    arrival={"arrived_at": "s"}, prompt=("num_prefill_tokens",), output=("num_decode_tokens",)
)
