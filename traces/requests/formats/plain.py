"""Our own table: the arrival's unit is in its column's name, or what `time_unit` says."""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    arrival={"arrival_s": "s", "arrival_ms": "ms", "arrival": None},
    prompt=("prompt_tokens",),
    output=("output_tokens",),
)
