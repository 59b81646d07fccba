"""Journal: nothing finished is lost, and nothing else is taken for it."""

from pathlib import Path

import pytest

from simulator.documents import DocumentError
from simulator.sweep.journal import FinishedRows, opened
from simulator.sweep.table import Row

ROWS: list[Row] = [
    {"status": "ok", "error": None, "speed": 0.1 + 0.2},
    {"status": "failed", "error": "a text with a\nbreak and ä"},
    {"status": "ok", "error": None, "speed": 5e-324},
]


def journal_file(folder: Path, *rows: Row) -> Path:
    """A journal with *rows*, the last point first."""
    path = folder / "finished.jsonl"
    path.touch()
    with opened(path, 10) as journal:
        for point, row in reversed(list(enumerate(rows))):
            journal.append(point, row)
    return path


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """In whatever order they were finished, to the last bit, and in the order asked for."""
    path = journal_file(tmp_path, *ROWS)
    with opened(path, 10) as journal:
        assert journal.points == [0, 1, 2]
        assert list(FinishedRows(journal, [0, 1, 2])) == [
            {"point": point} | row for point, row in enumerate(ROWS)
        ]
        assert 1 in journal
        assert 3 not in journal


def test_a_torn_line_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    """Of a journal cut at any byte the whole lines are left, and the next row goes behind them."""
    path = journal_file(tmp_path, *ROWS)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        left = whole[:cut].count(b"\n")
        with opened(path, 10) as journal:
            assert len(journal) == left
            journal.append(9, ROWS[0])
        lines = path.read_bytes().splitlines()
        assert lines[:-1] == whole.splitlines()[:left]
        assert b'"point": 9' in lines[-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "is not a row"),
        (b"\xff\x00", "is not a row"),
        (b"[" * 100_000, "is not a row"),
        (b"[1]", "is not a row of a sweep"),
        (b'{"point": 1}', "is not a row of a sweep"),
        (b'{"point": 10, "status": "ok"}', "there are 10 points"),
        (b'{"point": true, "status": "ok"}', "there are 10 points"),
        (b'{"point": 0, "status": "ok"}', "point 0 is there already"),
    ],
)
def test_a_line_that_is_not_ours_is_named(tmp_path: Path, line: bytes, words: str) -> None:
    """It is refused with its number, and the file stays as it is."""
    path = journal_file(tmp_path, ROWS[0])
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    with pytest.raises(DocumentError, match="line 2") as refused, opened(path, 10):
        pass
    assert words in str(refused.value)
    assert path.read_bytes() == before


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Whoever comes second is refused, and comes in when the first is gone."""
    path = journal_file(tmp_path)
    with opened(path, 10), pytest.raises(DocumentError, match="another process"), opened(path, 10):
        pass
    with opened(path, 10) as journal:
        assert len(journal) == 0
