"""Files are streamed: what is held does not grow with their length."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from tests.traces.requests.small_files import PLAIN_HEADER, written
from traces.requests import text_lines, text_table
from traces.requests.request_file import RequestFile, open_requests
from traces.requests.selection import Selection, taken
from traces.requests.survey import survey

ROWS = {"csv": (10_000, 100_000), "gzip": (10_000, 40_000), "json": (3_000, 15_000)}


def content(n_rows: int, form: str) -> bytes:
    """A file of so many rows."""
    if form == "json":
        line = '{"timestamp": %d, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
        return "".join(line % row for row in range(n_rows)).encode()
    table = PLAIN_HEADER + "".join(f"{row},{row % 900 + 1},7\n" for row in range(n_rows))
    return gzip.compress(table.encode(), 1) if form == "gzip" else table.encode()


def peak_bytes(path: Path, n_rows: int) -> int:
    """The most that is held while the file is surveyed."""
    tracemalloc.start()
    reader = open_requests(RequestFile(path=path))
    found = survey(taken(reader.blocks(), Selection()), format_name="any")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_requests == n_rows
    return peak


@pytest.mark.parametrize("form", ["csv", "gzip", "json"])
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four to ten times the rows take no more than half as much again, which is of the blocks."""
    monkeypatch.setattr(text_table, "BLOCK_ROWS", 1024)
    n_rows = ROWS[form]
    paths = [written(tmp_path, content(n, form), f"{n}") for n in n_rows]

    short, long = (peak_bytes(path, n) for path, n in zip(paths, n_rows, strict=True))

    assert long < 1.5 * short


def test_a_head_reads_only_the_head(tmp_path: Path) -> None:
    """The first requests of a file come although the row behind them is wrong."""
    table = PLAIN_HEADER + "".join(f"{row},1,1\n" for row in range(20_000)) + "wrong\n"
    path = written(tmp_path, table)

    parts = taken(open_requests(RequestFile(path=path)).blocks(), Selection(most_requests=100))

    assert survey(parts, format_name="plain").n_requests == 100


@pytest.mark.parametrize("piece", [1, 2, 7, 65536])
def test_pieces_do_not_show(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are the same however large the pieces that they are read in."""
    monkeypatch.setattr(text_lines, "PIECE_CHARACTERS", piece)
    path = written(tmp_path, "a,é\r\n\r\nb\nlast")

    assert list(text_lines.text_lines(path)) == ["a,é", "", "b", "last"]
