"""RequestSource: a file of requests as a scenario names it; its errors are of the field."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from simulator.documents import DocumentError, Mistake, known
from traces.requests import formats
from traces.requests.layout import AUTO
from traces.requests.request_block import RequestBlock
from traces.requests.request_file import RequestFile, RequestReader, open_requests
from traces.requests.request_file_error import RequestFileError
from traces.requests.selection import Selection, taken
from traces.requests.survey import Survey, survey
from traces.requests.wrong_rows import wrong_rows


def _refused(_: object) -> None:
    message = "is what the file says; leave it out"
    raise ValueError(message)


Found = Annotated[Survey | None, BeforeValidator(_refused)]
"""A field for what the file says, which no scenario can give."""


@dataclass(frozen=True)
class RequestSource:
    """A file, what is taken of it, and the field of the scenario that names it."""

    file: RequestFile
    selection: Selection
    field: str

    def survey(self) -> Survey:
        """What is taken, by one reading; raises DocumentError, also where nothing is."""
        with self._mistakes():
            reader = open_requests(self.file)
            parts = taken(reader.blocks(), self._selection(reader))
            found = survey(parts, format_name=reader.layout.name)
        if not found.n_requests:
            raise DocumentError(self.field, [Mistake(self.field, _nothing(self.file.path, found))])
        return found

    def blocks(self) -> Iterator[tuple[RequestBlock, int]]:
        """What is taken, and the tokens of a block of its prefixes; raises DocumentError."""
        with self._mistakes():
            reader = open_requests(self.file)
            selection = self._selection(reader)
            for part in taken(reader.blocks(), selection):
                yield part.block, selection.prefix_block_tokens

    def _selection(self, reader: RequestReader) -> Selection:
        return replace(self.selection, prefix_block_tokens=reader.layout.form.prefix_block_tokens)

    @contextmanager
    def _mistakes(self) -> Iterator[None]:
        try:
            yield
        except RequestFileError as error:
            found = wrong_rows(self.file, error)
            told = [*map(str, found.told), *([found.sentence] if found.others else [])]
            raise DocumentError(self.field, [Mistake(self.field, each) for each in told]) from error


def check_format(form: str, field: str) -> None:
    """Raise DocumentError where *form*, what *field* says, is no format."""
    if form not in {AUTO, *formats.names()}:
        what = known(form, [AUTO, *formats.names()], "format")
        raise DocumentError(field, [Mistake(field, what)])


def clipping_notes(
    found: Survey, prompt_tokens: int | None, output_tokens: int | None
) -> list[str]:
    """Sentences on lengths that were cut and rows that were left out for having none."""
    notes = []
    if prompt_tokens is not None:
        notes.append(f"prompts clipped to {prompt_tokens} tokens: {found.clipped_prompts}")
    if output_tokens is not None:
        notes.append(f"outputs clipped to {output_tokens} tokens: {found.clipped_outputs}")
    if found.skipped_rows:
        notes.append(f"rows with a length of zero, left out: {found.skipped_rows}")
    return notes


def _nothing(path: Path, found: Survey) -> str:
    counts = {
        "rows with a length of zero": found.skipped_rows,
        "rows before the window": found.early_rows,
    }
    why = ", ".join(f"{what}: {n_rows}" for what, n_rows in counts.items() if n_rows)
    return f"{path}: leaves no request ({why or 'no row is in the window'})"
