"""Small request files as text, and what reading them comes to."""

from pathlib import Path
from typing import Any

import pytest

from traces.requests.request_block import RequestBlock, joined
from traces.requests.request_file import RequestFile, open_requests
from traces.requests.request_file_error import RequestFileError

PLAIN_HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def written(folder: Path, content: str | bytes, name: str = "requests.csv") -> Path:
    """The file with *content*, its line ends as they are."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, **options: Any) -> RequestBlock:
    """Everything in the file at *path*."""
    return joined(list(open_requests(RequestFile(path=path, **options)).blocks()))


def rows(block: RequestBlock) -> list[tuple[float, int, int]]:
    """Arrival, prompt and output of each request, as plain numbers."""
    columns = (block.arrival_s, block.prompt_tokens, block.output_tokens)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def refusal(path: Path, **options: Any) -> RequestFileError:
    """Why the file is refused."""
    with pytest.raises(RequestFileError) as caught:
        read(path, **options)
    return caught.value
