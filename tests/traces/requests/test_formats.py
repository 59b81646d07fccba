"""Each format of request files: what its columns mean, however a release spells them."""

import gzip
from pathlib import Path

import pytest

from tests.traces.requests.small_files import PLAIN_HEADER, read, refusal, rows, written
from traces.requests import formats
from traces.requests.request_file import RequestFile, open_requests

AZURE_2023 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n"
    "2023-11-16 18:15:51,879,55\r\n"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-12 23:59:59.500000+00:00,10,2\n"
    "2024-05-13 00:00:00+00:00,20,3\n"
    "2024-05-13 02:00:00.25+02:00,30,4\n"
)
MOONCAKE = (
    '{"timestamp": 27000, "input_length": 1030, "output_length": 500, "hash_ids": [46, 47, 48]}\n'
    '{"timestamp": 30001, "input_length": 512, "output_length": 26, "hash_ids": [46]}\n'
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45.5,GPT-4,1087,230,1317,API log\n"
)
BURSTGPT_WITH_SESSIONS = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    '5.0,"a,1",2.5,ChatGPT,472,18,490,Conversation log\n'
    "45.5,,3,GPT-4,1087,230,1317,API log\n"
)
SPLITWISE = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n"
LENGTHS = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("azure", AZURE_2023, [(0.0, 374, 44), (4.314579, 396, 109), (4.31941, 879, 55)]),
        ("azure", AZURE_2024, [(0.0, 10, 2), (0.5, 20, 3), (0.75, 30, 4)]),
        ("mooncake", MOONCAKE, [(0.0, 1030, 500), (3.001, 512, 26)]),
        ("burstgpt", BURSTGPT, [(0.0, 472, 18), (40.5, 1087, 230)]),
        ("burstgpt", BURSTGPT_WITH_SESSIONS, [(0.0, 472, 18), (40.5, 1087, 230)]),
        ("splitwise", SPLITWISE, [(0.0, 374, 44), (4.314579, 396, 109)]),
        ("plain", PLAIN_HEADER + "1.5,10,2\n2.75,11,3\n", [(0.0, 10, 2), (1.25, 11, 3)]),
    ],
)
def test_each_format_is_known_by_its_header(
    tmp_path: Path, name: str, text: str, expected: list[tuple[float, int, int]]
) -> None:
    """Arrivals are seconds since the first row, to the nanosecond; named or not is the same."""
    path = written(tmp_path, text)

    assert open_requests(RequestFile(path=path)).layout.name == name
    assert rows(read(path)) == expected
    assert rows(read(path, format=name)) == expected


def test_mooncake_says_which_blocks_prompts_share() -> None:
    """Its blocks of 512 tokens go along, by their identities."""
    assert formats.request_format("mooncake").prefix_block_tokens == 512


def test_blocks_go_along_with_their_requests(tmp_path: Path) -> None:
    """The identities are those of the row, in JSON lines and in CSV alike."""
    as_csv = 'timestamp,input_length,output_length,hash_ids\n27000,1030,5,"[46, 47, 48]"\n'
    as_csv += '30001,512,26,"[46]"\n'

    for text in (MOONCAKE, as_csv):
        assert read(written(tmp_path, text)).prefixes == [(46, 47, 48), (46,)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LENGTHS, "lengths"),
        ("output_tokens,prompt_tokens\n54,3772\n", "lengths"),
        (f"{SPLITWISE.splitlines()[0]}\n0.0,3772,54\n", "splitwise"),
        ('{"prompt_tokens": 3772, "output_tokens": 54}', "lengths"),
    ],
)
def test_lengths_need_no_arrivals(tmp_path: Path, text: str, name: str) -> None:
    """A table of lengths, or a trace whose arrivals are not asked for, gives lengths alone."""
    path = written(tmp_path, text)

    assert rows(read(path, needs_arrivals=False)) == [(0.0, 3772, 54)]
    assert open_requests(RequestFile(path=path, needs_arrivals=False)).layout.name == name


@pytest.mark.parametrize("name", formats.names())
def test_every_format_has_columns(name: str) -> None:
    """A format has a docstring, one way to say lengths at least, and known units."""
    form = formats.request_format(name)

    assert form.prompt
    assert form.output
    assert set(form.arrival.values()) <= {"s", "ms", "iso", None}
    assert (form.prefix_block_tokens > 0) == bool(form.prefix)


def test_an_unknown_format_is_a_key_error() -> None:
    """A format that is not in the folder is not found."""
    with pytest.raises(KeyError):
        formats.request_format("nothing")


AS_JSON = (
    '{"arrival_s": 1, "prompt_tokens": 10, "output_tokens": 2}\r\n'
    '{"output_tokens": 3, "arrival_s": 2.5, "prompt_tokens": 11, "more": [1]}\r\n'
)
EXPECTED = [(0.0, 10, 2), (1.5, 11, 3)]


@pytest.mark.parametrize(
    "content",
    [
        "arrival_s,prompt_tokens,output_tokens\n1,10,2\n2.5,11,3",
        "arrival_s,prompt_tokens,output_tokens\r\n1,10,2\r\n2.5,11,3\r\n",
        "arrival_s,prompt_tokens,output_tokens\r1,10,2\r2.5,11,3\r",
        "\ufeffarrival_s,prompt_tokens,output_tokens\n1,10,2\n2.5,11,3\n",
        "\n\narrival_s,prompt_tokens,output_tokens\n\n1,10,2\n\n2.5,11,3\n\n",
        "output_tokens,more,arrival_s,prompt_tokens\n2,x,1,10\n3,,2.5,11\n",
        "Arrival S, PROMPT-TOKENS ,Output Tokens\n1,10,2\n2.5,11,3\n",
        'arrival_s,"prompt_tokens",output_tokens\n1,"10",2\n"2.5",11,3\n',
        "arrival_s,prompt_tokens,output_tokens\n 1 , 10,2\n2.5, 11.0 ,+3\n",
        "arrival_s,prompt_tokens,output_tokens\n1e0,10,2\n.25e1,11,3\n",
        "arrival_ms,prompt_tokens,output_tokens\n1000,10,2\n2500,11,3\n",
        "arrival,prompt_tokens,output_tokens\n2024-01-01T00:00:01,10,2\n2024-01-01 00:00:02.5,11,3",
        AS_JSON,
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_spelling_does_not_matter(tmp_path: Path, content: str, *, packed: bool) -> None:
    """Line ends, marks, order, case, quotes, units, JSON or CSV, gzip or not: the same rows."""
    raw = content.encode()

    path = written(tmp_path, gzip.compress(raw, mtime=0) if packed else raw, "named.anything")

    assert rows(read(path)) == EXPECTED


@pytest.mark.parametrize(("unit", "expected"), [("s", 1500.0), ("ms", 1.5)])
def test_a_unit_may_be_said(tmp_path: Path, unit: str, expected: float) -> None:
    """A column without a unit takes the one that is said, and one by its format too."""
    for header in ("arrival", "arrival_s" if unit == "s" else "arrival_ms"):
        path = written(tmp_path, f"{header},prompt_tokens,output_tokens\n1000,1,1\n2500,1,1\n")
        assert read(path, time_unit=unit).arrival_s.tolist() == [0.0, expected]
    path = written(tmp_path, BURSTGPT.replace("45.5", "1505"))
    assert read(path, time_unit=unit).arrival_s[1] == expected


def test_contradicting_units_are_refused(tmp_path: Path) -> None:
    """A column that has its unit in its name is not read in another."""
    path = written(tmp_path, PLAIN_HEADER + "1,1,1\n")

    assert "is in s by its name and in ms by time_unit" in str(refusal(path, time_unit="ms"))


def test_time_is_exact_far_from_its_origin(tmp_path: Path) -> None:
    """A tenth of a microsecond, Azure's resolution, is kept in any year."""
    stamps = ("2261-12-31 23:59:59.1234567", "2261-12-31 23:59:59.1234568")
    path = written(
        tmp_path,
        "".join(["TIMESTAMP,ContextTokens,GeneratedTokens\n"] + [f"{s},1,1\n" for s in stamps]),
    )

    assert read(path).arrival_s.tolist() == [0.0, 1e-7]


@pytest.mark.parametrize(
    "stamps",
    [
        ("2024-03-01T00:00:00Z", "2024-03-01T01:00:00.5+01:00"),
        ("2024-03-01 00:00:00", "2024-03-01 00:00:00.500"),
        (" 2024-03-01 00:00:00", "2024-03-01 00:00:00.500 "),
        ("2024-03-01T00:00:00Z", "2024-03-01 00:00:00.5"),
        ("2024-03-01", "2024-03-01T00:00:00.500000000"),
        ("2024-02-29 23:30:00-00:30", "2024-03-01 00:00:00.5"),
    ],
)
def test_time_zones_may_be_mixed(tmp_path: Path, stamps: tuple[str, str]) -> None:
    """Half a second is half a second, with time zones, without, or with some."""
    table = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    path = written(tmp_path, table + "".join(f"{stamp},1,1\n" for stamp in stamps))

    assert read(path).arrival_s.tolist() == [0.0, 0.5]


def test_sorting_is_asked_for(tmp_path: Path) -> None:
    """Rows out of order are sorted with their lengths, ties in the file's order, and counted."""
    path = written(tmp_path, PLAIN_HEADER + "5,1,1\n3,2,2\n5,3,3\n4,4,4\n")

    block = read(path, order="sort")

    assert rows(block) == [(0.0, 2, 2), (1.0, 4, 4), (2.0, 1, 1), (2.0, 3, 3)]
    assert block.moved_rows == 2


def test_zero_lengths_may_be_skipped(tmp_path: Path) -> None:
    """Failed requests of BurstGPT answer with nothing; they are left out and counted if asked."""
    failed = "45.5,GPT-4,1087,0,1087,API log\n46,GPT-4,0,3,3,API log\n47,GPT-4,5,6,11,API log\n"
    path = written(tmp_path, "".join(BURSTGPT.splitlines(keepends=True)[:2]) + failed)

    block = read(path, zero_lengths="skip")

    assert rows(block) == [(0.0, 472, 18), (42.0, 5, 6)]
    assert block.skipped_rows == 2
