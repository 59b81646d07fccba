"""Lines of a text file, plain or gzip by what it holds, read a piece at a time."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from traces.requests.request_file_error import RequestFileError

# A request's line has a few hundred bytes; one of millions of tokens has thousands of block hashes.
MOST_LINE_CHARACTERS = 1_000_000
PIECE_CHARACTERS = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
SEEN_BYTES = 4096


def text_lines(path: Path) -> Iterator[str]:
    """The lines without their ends or a byte-order mark; raises RequestFileError."""
    _check_is_file(path)
    try:
        with (
            _opened(path) as binary,
            io.TextIOWrapper(binary, encoding="utf-8-sig") as text,
        ):
            yield from _bounded(path, text)
    except UnicodeDecodeError as error:
        raise RequestFileError(path, "is not UTF-8 text") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RequestFileError(path, f"is gzip that breaks off or is damaged: {error}") from error
    except OSError as error:
        raise RequestFileError(path, f"cannot be read: {error.strerror or error}") from error


def _check_is_file(path: Path) -> None:
    try:
        if path.is_file():
            return
        what = "is a folder; a file is needed" if path.is_dir() else "is no file"
        if not path.exists():
            what = "is not there"
    except OSError as error:  # a name too long
        what = f"is not a path: {error.strerror}"
    raise RequestFileError(path, what)


def _opened(path: Path) -> IO[bytes]:
    """The bytes of the file, unpacked where it is gzip."""
    raw = path.open("rb")
    start = raw.peek(SEEN_BYTES)[:SEEN_BYTES]
    if not start.startswith(GZIP_MAGIC):
        if b"\0" in start:
            raw.close()
            raise RequestFileError(path, "is binary; CSV or JSON lines are needed")
        return raw
    raw.close()
    return cast("IO[bytes]", gzip.open(path, "rb"))


def _bounded(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Lines cut from pieces of the text, since asking for a million one by one costs a second."""
    n_lines, rest = 0, ""
    while piece := text.read(PIECE_CHARACTERS):
        *lines, rest = (rest + piece).split("\n")
        n_lines += len(lines)
        if len(rest) > MOST_LINE_CHARACTERS:
            rule = f"a line has at most {MOST_LINE_CHARACTERS} characters"
            raise RequestFileError(path, rule, line=n_lines + 1)
        yield from lines
    if rest:
        yield rest
