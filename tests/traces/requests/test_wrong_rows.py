"""All wrong rows of a file at once, against lines that were spoilt by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.documents import DocumentError
from simulator.load.request_source import RequestSource
from tests.traces.requests.small_files import PLAIN_HEADER, refusal, written
from traces.requests.request_file import RequestFile
from traces.requests.selection import Selection
from traces.requests.wrong_rows import MOST_COUNTED, WrongRows, wrong_rows

SPOILT = {
    "{at},,3": "prompt_tokens",
    "{at},5,five": "output_tokens",
    "{at},0,3": "prompt_tokens",
    "soon,5,3": "arrival_s",
    "-1,5,3": "arrival_s",
    "{at},5": "",
    "{at},5,3,4": "",
}
"""Rows that are wrong wherever they stand, and the column to be named."""


def found(path: Path, **options: Any) -> WrongRows:
    """What is said of the file at *path*, which is refused."""
    return wrong_rows(RequestFile(path=path, **options), refusal(path, **options))


def mistakes(path: Path) -> list[str]:
    """What a scenario with that file is told."""
    source = RequestSource(RequestFile(path=path), Selection(), "workload.file")
    with pytest.raises(DocumentError) as caught:
        source.survey()
    return [mistake.what for mistake in caught.value.mistakes]


@pytest.mark.parametrize("n_rows", [40, 20_000])
def test_every_spoilt_row_is_told(tmp_path: Path, n_rows: int) -> None:
    """Seven rows spoilt in seven ways, in any order and in any block of the file."""
    drawn = np.random.default_rng(n_rows)
    places = sorted(drawn.choice(np.arange(2, n_rows), len(SPOILT), replace=False).tolist())
    kinds = drawn.permutation(sorted(SPOILT)).tolist()
    rows = [f"{at},5,3" for at in range(n_rows)]
    for place, kind in zip(places, kinds, strict=True):
        rows[place] = kind.format(at=place)

    told = found(written(tmp_path, PLAIN_HEADER + "\n".join(rows)))

    # The header is line 1, so row 0 is line 2.
    assert [error.line for error in told.told] == [place + 2 for place in places]
    assert [error.column for error in told.told] == [SPOILT[kind] for kind in kinds]
    assert (told.others, told.sentence) == (0, "")


def test_ten_are_told_and_the_others_counted(tmp_path: Path) -> None:
    """Of 25 wrong rows fifteen are a number."""
    text = PLAIN_HEADER + "1,5,3\n" * 100 + "1,0,3\n" * 25 + "1,5,3\n"
    path = written(tmp_path, text)

    told = mistakes(path)

    assert len(told) == 11
    assert told[0].startswith(f"{path}, line 102, column prompt_tokens: ")
    assert told[9].startswith(f"{path}, line 111, ")
    assert told[10] == "15 other rows are wrong too"


def test_one_wrong_row_is_one_mistake(tmp_path: Path) -> None:
    """Nothing is said of others where there are none; of one other it is said in the singular."""
    assert len(mistakes(written(tmp_path, PLAIN_HEADER + "1,0,3\n2,5,3\n"))) == 1
    assert mistakes(written(tmp_path, PLAIN_HEADER + "1,0,3\n" * 11))[-1] == (
        "1 other row is wrong too"
    )


def test_counting_ends(tmp_path: Path) -> None:
    """Of a million wrong rows it is said that there are many; none is looked at behind those."""
    told = found(written(tmp_path, PLAIN_HEADER + "1,0,3\n" * 50_000))

    assert len(told.told) == 10
    assert told.sentence == f"more than {MOST_COUNTED - 10} other rows are wrong too"


def test_a_clock_that_goes_back_once_is_one_mistake(tmp_path: Path) -> None:
    """The rows behind it go on from it; across blocks of the reader too."""
    text = PLAIN_HEADER + "".join(f"{at},5,3\n" for at in [*range(8192), *range(100), 50, 51])

    told = found(written(tmp_path, text))

    assert [error.line for error in told.told] == [8194, 8294]


def test_objects_and_lists_are_told(tmp_path: Path) -> None:
    """JSON lines: one that is no object, one without an output, one whose hashes are none."""
    row = '{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [1]}'
    lines = [
        row,
        "17",
        row.replace('"output_length": 3, ', ""),
        row,
        row.replace("[1]", '["x"]'),
        row.replace("{", ""),
    ]

    told = found(written(tmp_path, "\n".join(lines)))

    assert [error.line for error in told.told] == [2, 3, 5, 6]


def test_reading_ends_where_there_is_no_telling(tmp_path: Path) -> None:
    """Behind a quote that does not end nothing is a row; blocks before it are told."""
    rows = "1,0,3\n" + "2,5,3\n" * 9000
    path = written(tmp_path, f'{PLAIN_HEADER}{rows}3,5,"3\n4,0,3\n')

    first, last = found(path).told

    assert first.line == 2
    assert "is not readable as CSV" in str(last)


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", PLAIN_HEADER])
def test_what_is_no_row_is_told_alone(tmp_path: Path, content: str) -> None:
    """An empty file, an unknown header, a header alone."""
    path = written(tmp_path, content)

    assert [str(error) for error in found(path).told] == [str(refusal(path))]
