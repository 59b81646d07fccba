"""BurstGPT: CSV, seconds, tokens of ChatGPT and GPT-4 requests; failures answer with 0 tokens.

github.com/HPMLL/BurstGPT; Wang et al., KDD 2025. Later releases add Session ID and Elapsed time.
"""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    arrival={"Timestamp": "s"}, prompt=("Request tokens",), output=("Response tokens",)
)
