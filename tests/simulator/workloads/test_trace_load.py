"""The trace workload: a file's requests, what is changed about them, and what a result says."""

from pathlib import Path
from typing import Any

import pytest
import simpy
from pydantic import TypeAdapter

from simulator import workloads
from simulator.documents import DocumentError, check
from simulator.request import Request
from tests.simulator.workloads.open_loads import load, requests

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
ROWS = [(3.0, 10, 5), (4.0, 400, 2), (4.5, 20, 90), (8.0, 30, 7)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A small trace."""
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "".join(f"{a},{p},{o}\n" for a, p, o in ROWS), encoding="utf-8")
    return str(path)


def test_requests_are_the_files(file: str) -> None:
    """Indexed in order, re-based to the first arrival, with the run's seed."""
    made = requests(load("trace", file=file), seed=9)

    assert made == [Request(i, p, o, a - 3.0, seed=9) for i, (a, p, o) in enumerate(ROWS)]


def test_a_load_says_what_it_is(file: str) -> None:
    """Its number, its longest sequence and its mean are the file's."""
    parameters = load("trace", file=file)

    assert not parameters.is_closed
    assert (parameters.n_requests, parameters.most_together) == (4, 4)
    assert parameters.longest_tokens == 402
    assert parameters.example == Request(0, 115, 26)
    assert parameters.notes == (f"requests of {file} (format plain): 4 in 5 s, 0.6 per s",)


def test_nothing_is_known_before_the_file_is_read() -> None:
    """Unprepared parameters say so, and read nothing."""
    schema = workloads.workload("trace").Parameters

    parameters = TypeAdapter(schema).validate_python({"file": "absent.csv"})

    assert parameters.n_requests is None
    assert parameters.longest_tokens == 1
    assert parameters.example == Request(0, 1, 1)
    assert parameters.notes == ()


def test_every_change_is_stated(file: str) -> None:
    """Window, number, rate and both clips, with how many rows each touched."""
    parameters = load(
        "trace",
        file=file,
        from_s=0.5,
        until_s=4.0,
        requests=7,
        rate_scale=2.0,
        most_prompt_tokens=100,
        most_output_tokens=50,
    )

    assert [(r.arrival_s, r.prompt_tokens, r.output_tokens) for r in requests(parameters)] == [
        (0.25, 100, 2),
        (0.5, 20, 50),
    ]
    outside = "rows before it: 1; rows after it are not read"
    assert parameters.notes == (
        f"requests of {file} (format plain): 2 in 0.25 s, 4 per s",
        f"window of the file's time: 0.5 s to 4 s ({outside})",
        "at most the first 7 of them",
        "arrivals at 2 times the file's rate",
        "prompts clipped to 100 tokens: 1",
        "outputs clipped to 50 tokens: 1",
    )


def test_left_out_and_sorted_rows_are_stated(tmp_path: Path) -> None:
    """How many rows had nothing to say and how many came late; one instant has no rate."""
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "5,1,1\n4,1,0\n4,0,1\n5,1,2\n", encoding="utf-8")

    notes = load("trace", file=str(path), zero_lengths="skip", order="sort").notes

    assert notes == (
        f"requests of {path} (format plain): 2, all at one instant",
        "rows with a length of zero, left out: 2",
    )
    path.write_text(HEADER + "5,1,1\n4,1,1\n", encoding="utf-8")
    notes = load("trace", file=str(path), order="sort").notes
    assert notes[-1] == "rows out of order, sorted: 1"


def test_blocks_go_along(tmp_path: Path) -> None:
    """Mooncake's blocks become the request's prefix, as far as its prompt goes."""
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [4, 9]}\n',
        encoding="utf-8",
    )

    (whole,) = requests(load("trace", file=str(path)))
    (cut,) = requests(load("trace", file=str(path), most_prompt_tokens=500))

    assert (whole.prefix, whole.prefix_block_tokens) == ((4, 9), 512)
    assert (cut.prefix, cut.prefix_block_tokens) == ((4,), 512)


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"from_s": 2.0, "until_s": 2.0}, "workload.until_s: is after from_s, 2.0, got 2.0"),
        ({"format": "azur"}, "workload.format: no format 'azur'; did you mean azure"),
        ({"format": "azure"}, "workload.file: {file}: lacks columns of the format azure"),
        ({"from_s": 6.0}, "workload.file: {file}: leaves no request (rows before the window: 4)"),
        (
            {"from_s": 2.0, "until_s": 3.0},
            "workload.file: {file}: leaves no request (rows before the window: 3)",
        ),
        ({"time_unit": "iso"}, "workload.file: {file}, line 2, column arrival_s: must be an ISO"),
    ],
)
def test_what_cannot_be_is_told(file: str, fields: dict[str, Any], mistake: str) -> None:
    """The field and the rule; a window that leaves nothing is no run."""
    with pytest.raises(DocumentError) as caught:
        load("trace", file=file, **fields)

    assert mistake.format(file=file) in str(caught.value)


def test_skipped_rows_may_leave_nothing(tmp_path: Path) -> None:
    """A trace of failures alone is no load."""
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "5,1,0\n", encoding="utf-8")

    with pytest.raises(DocumentError, match=r"leaves no request \(rows with a length of zero: 1\)"):
        load("trace", file=str(path), zero_lengths="skip")


@pytest.mark.parametrize("wrong", [{"file": 3}, {}, {"file": "x", "rate_scale": 0}])
def test_wrong_fields_are_told(wrong: dict[str, Any]) -> None:
    """A path is needed, and a rate that moves."""
    assert check(workloads.workload("trace").Parameters, wrong, "workload")[1]


def test_a_file_that_changes_is_told(file: str) -> None:
    """What has become wrong since it was surveyed stops the run with its place."""
    parameters = load("trace", file=file)
    Path(file).write_text(f"{HEADER}1,1,1\n2,x,1\n", encoding="utf-8")
    environment = simpy.Environment()

    workloads.workload("trace").drive(environment, parameters, 0, lambda _: environment.event())

    with pytest.raises(DocumentError, match=r"workload\.file: .*line 3, column prompt_tokens"):
        environment.run()
