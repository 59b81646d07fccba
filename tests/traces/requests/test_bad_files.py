"""Bad request files: each refused by its path, line, column, value and rule."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.requests.small_files import PLAIN_HEADER, read, refusal, rows, written
from traces.requests import text_lines
from traces.requests.layout import layout_of
from traces.requests.request_file_error import RequestFileError

WHOLE = "must be a whole number from 1 to 10000000"


@pytest.mark.parametrize(
    ("row", "column", "rule"),
    [
        ("1,-5,3", "prompt_tokens", f"{WHOLE}, got '-5'"),
        ("1,5,-3", "output_tokens", f"{WHOLE}, got '-3'"),
        ("1,0,3", "prompt_tokens", "zero_lengths: skip leaves such rows out"),
        ("1,5,0", "output_tokens", "zero_lengths: skip leaves such rows out"),
        ("1,5.5,3", "prompt_tokens", f"{WHOLE}, got '5.5'"),
        ("1,nan,3", "prompt_tokens", f"{WHOLE}, got 'nan'"),
        ("1,,3", "prompt_tokens", f"{WHOLE}, got ''"),
        ("1,five,3", "prompt_tokens", f"{WHOLE}, got 'five'"),
        ("1,1_000,3", "prompt_tokens", f"{WHOLE}, got '1_000'"),
        ("1,1e3,3", "prompt_tokens", f"{WHOLE}, got '1e3'"),
        ("1,10000001,3", "prompt_tokens", f"{WHOLE}, got '10000001'"),
        (f"1,{'9' * 30},3", "prompt_tokens", f"{WHOLE}, got '999"),
        (f"1,{'9' * 5000},3", "prompt_tokens", f"{WHOLE}, got '999"),
        ("nan,5,3", "arrival_s", "must be a finite number, got 'nan'"),
        ("inf,5,3", "arrival_s", "must be a finite number, got 'inf'"),
        ("1e999,5,3", "arrival_s", "must be a finite number, got '1e999'"),
        (",5,3", "arrival_s", "must be a finite number, got ''"),
        ("soon,5,3", "arrival_s", "must be a finite number, got 'soon'"),
        ("2024-01-01,5,3", "arrival_s", "must be a finite number, got '2024-01-01'"),
        ("0.25,5,3", "arrival_s", "is 0.25 s before the row above (order: sort"),
        ("1,5", "", "has 2 values where the header has 3"),
        ("1,5,3,4", "", "has 4 values where the header has 3"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: str, column: str, rule: str) -> None:
    """The line as an editor counts it, the column, the rule and the value."""
    path = written(tmp_path, f"{PLAIN_HEADER}0,1,1\n\n0.5,2,2\n{row}\n9,9,9\n")

    error = refusal(path)

    assert (error.line, error.column) == (5, column)
    assert rule in str(error)
    assert str(error).startswith(f"{path}, line 5")


@pytest.mark.parametrize(
    ("stamp", "rule"),
    [
        ("2023-02-30 00:00:00", "must be a date-time that there is"),
        ("2023-11-16 25:00:00", "must be a date-time that there is"),
        ("9999-01-01 00:00:00", "must be a date-time that there is"),
        ("16.11.2023 18:15", "must be an ISO date-time, such as"),
        ("1700158546", "must be an ISO date-time, such as"),
        ("2023-11-16 18:15:45.6", "is 1.4 s before the row above"),
    ],
)
def test_a_wrong_date_is_named(tmp_path: Path, stamp: str, rule: str) -> None:
    """A day that no calendar has, another notation, or a clock that goes back."""
    header, first = "TIMESTAMP,ContextTokens,GeneratedTokens\n", "2023-11-16 18:15:47,1,1\n"
    path = written(tmp_path, f"{header}{first}{stamp},1,1\n")

    error = refusal(path)

    assert (error.line, error.column) == (3, "TIMESTAMP")
    assert rule in str(error)


@pytest.mark.parametrize(
    ("header", "stamp"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens", "17"),
        ("arrival,prompt_tokens,output_tokens", "17"),
    ],
)
def test_a_number_without_a_unit_is_refused(tmp_path: Path, header: str, stamp: str) -> None:
    """Where neither format nor name says the unit, time_unit must."""
    path = written(tmp_path, f"{header}\n{stamp},1,1\n")

    assert "time_unit says s or ms, got '17'" in str(refusal(path))


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "is empty"),
        ("\n \r\n", "is empty"),
        (PLAIN_HEADER, "has a header and no row below it"),
        (PLAIN_HEADER + "\n\n", "has a header and no row below it"),
        ("a,b,c\n1,2,3\n", "is of no known format (azure: TIMESTAMP, ContextTokens, Gen"),
        ("a,b,c\n1,2,3\n", "Its header: a, b, c"),
        ("prompt_tokens,output_tokens\n1,2\n", "has lengths and no arrivals"),
        ("1.5,10,3\n", "is of no known format"),
        ("arrival_s;prompt_tokens;output_tokens\n1;2;3\n", "is of no known format"),
        (
            "arrival_s,arrival_s,prompt_tokens,output_tokens\n1,1,2,3\n",
            "has the column arrival_s twice",
        ),
        ("arrival_s,Prompt Tokens,prompt_tokens,output_tokens\n1,1,2,3\n", "twice"),
        ('arrival_s,prompt_tokens,output_tokens\n1,2,"3\n', "line 2: is not readable as CSV"),
        ('arrival_s,prompt_tokens,"output_tokens\n1,2,3\n', "line 1: is not readable as CSV"),
        ('[{"timestamp": 1}]', "is a JSON array; JSON lines"),
        ('{"timestamp": 1', "line 1: is not readable as JSON"),
        ('{"a": ' + "[" * 100_000, "line 1: is not readable as JSON"),
        ('{"timestamp": 1}', "is of no known format"),
        (b"\xff\xfea\x00r\x00", "is binary"),
        (b"\x00\x01\x02rubbish", "is binary"),
        (b"arrival_s,\xe9\n", "is not UTF-8 text"),
        (bytes(range(128, 256)), "is not UTF-8 text"),
        (
            gzip.compress(b"arrival_s,prompt_tokens,output_tokens\n" + b"1,2,3\n" * 99, mtime=0)[
                :-20
            ],
            "is gzip that breaks off",
        ),
        (b"\x1f\x8bnot gzip at all", "is gzip that breaks off or is damaged"),
        (gzip.compress(b"\x00\xff\x80", mtime=0), "is not UTF-8 text"),
        (gzip.compress(b"", mtime=0), "is empty"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str | bytes, rule: str) -> None:
    """Nothing in it, no header of ours, broken quotes, JSON or gzip, or no text at all."""
    path = written(tmp_path, content)

    error = refusal(path)

    assert str(error).startswith(str(path))
    assert rule in str(error)


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("17", "must be an object, got '17'"),
        (
            '{"input_length": 1, "output_length": 1, "hash_ids": []}',
            "must be a finite number, got nothing",
        ),
        (
            '{"timestamp": 1, "input_length": true, "output_length": 1, "hash_ids": []}',
            f"{WHOLE}, got True",
        ),
        (
            '{"timestamp": 1, "input_length": [1], "output_length": 1, "hash_ids": []}',
            f"{WHOLE}, got ['1']",
        ),
        (
            '{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": []}',
            "must be a finite number, got 'NaN'",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1}',
            "must be a list of whole numbers, got nothing",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7}',
            "must be a list of whole numbers",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [null]}',
            "must be a list of whole numbers",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["x"]}',
            "must be a list of whole numbers",
        ),
    ],
)
def test_a_wrong_object_is_named(tmp_path: Path, row: str, rule: str) -> None:
    """What a line of JSON lacks or says otherwise."""
    first = '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}'
    error = refusal(written(tmp_path, f"{first}\n{row}\n"))

    assert error.line == 2
    assert rule in str(error)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, nothing, a pipe (which would be waited for), and names that can be none."""
    os.mkfifo(tmp_path / "pipe")

    assert "is a folder; a file is needed" in str(refusal(tmp_path))
    assert "is not there" in str(refusal(tmp_path / "absent.csv"))
    assert "is no file" in str(refusal(tmp_path / "pipe"))
    assert "is not a path: File name too long" in str(refusal(tmp_path / ("n" * 300)))
    assert "a\\x00b: is not there" in str(refusal(Path("a\0b")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """The system's reason is told."""
    path = written(tmp_path, PLAIN_HEADER)
    path.chmod(0)

    assert "cannot be read: Permission denied" in str(refusal(path))


def test_an_ambiguous_header_is_refused(tmp_path: Path) -> None:
    """Where a file has the columns of two formats, the name decides."""
    path = written(
        tmp_path,
        "timestamp,ContextTokens,GeneratedTokens,Request tokens,Response tokens\n"
        "5,1,2,3,4\n7,1,2,3,4\n",
    )

    assert "fits the formats azure and burstgpt: name one" in str(refusal(path))
    assert rows(read(path, format="burstgpt")) == [(0.0, 3, 4), (2.0, 3, 4)]


def test_a_named_format_must_fit(tmp_path: Path) -> None:
    """What the format needs and what the header has."""
    error = str(refusal(written(tmp_path, PLAIN_HEADER + "1,2,3\n"), format="azure"))

    assert "lacks columns of the format azure (TIMESTAMP, ContextTokens, GeneratedTokens)" in error
    assert "Its header: arrival_s, prompt_tokens, output_tokens" in error


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is one endless line is refused long before memory is full."""
    monkeypatch.setattr(text_lines, "MOST_LINE_CHARACTERS", 100_000)
    path = written(tmp_path, PLAIN_HEADER + "1" * 1_000_000)

    assert "line 2: a line has at most 100000 characters" in str(refusal(path))


def test_a_long_header_is_cut() -> None:
    """A header of nonsense does not fill the screen."""
    with pytest.raises(ValueError, match=r"Its header: x+\.\.\.$") as caught:
        layout_of(Path("file"), ("x" * 100_000,))

    assert len(str(caught.value)) < 1000


def test_one_row_and_one_instant_are_loads(tmp_path: Path) -> None:
    """A single request, and many at the same instant, are fine."""
    assert rows(read(written(tmp_path, PLAIN_HEADER + "7,1,2\n"))) == [(0.0, 1, 2)]
    at_once = read(written(tmp_path, PLAIN_HEADER + "7,1,2\n" * 3))
    assert at_once.arrival_s.tolist() == [0.0, 0.0, 0.0]


PIECES = ["arrival_s,prompt_tokens,output_tokens", "1,2,3", ",", '"', "\n", "\r", "\0", "{", "}"]
PIECES += ['{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [1]}', "2024-01-01"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200)
    | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    ),
    packed=st.booleans(),
    order=st.sampled_from(["reject", "sort"]),
)
def test_rubbish_is_refused_or_read(
    tmp_path: Path, content: bytes, order: str, *, packed: bool
) -> None:
    """Whatever a file holds, it is read with positive lengths in order, or refused by its path."""
    path = written(tmp_path, gzip.compress(content, mtime=0) if packed else content)

    try:
        block = read(path, order=order)
    except RequestFileError as error:
        assert str(error).startswith(str(path))
    else:
        assert all(prompt > 0 and output > 0 for _, prompt, output in rows(block))
        assert block.arrival_s.tolist() == sorted(block.arrival_s)
