"""Azure LLM inference traces of 2023 and 2024: CSV, ISO date-times, tokens in and out.

github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and 2024.md.
"""

from typing import Final

from traces.requests.request_format import RequestFormat

FORMAT: Final = RequestFormat(
    arrival={"TIMESTAMP": "iso"}, prompt=("ContextTokens",), output=("GeneratedTokens",)
)
