"""`blockcast show hardware`: tables that fit a terminal, and the figure."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

from reports.hardware_text import packed, quantity
from reports.style import ordered_colours, tick_words, ticks
from tests.cli.command import call
from tests.hardware_view.small_machine import machine, machine_with_points

SVG = "{http://www.w3.org/2000/svg}"


def lines_of(name: object, columns: int) -> list[str]:
    """What `show hardware` prints on a terminal of so many columns."""
    answer = call("show", "hardware", name, columns=columns)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.splitlines()


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("name", ["b200-sxm", "h100-sxm", "h200-sxm", "small"])
def test_nothing_is_cut_off(name: str, columns: int) -> None:
    """No line is longer than the terminal, and none of it is replaced by an ellipsis."""
    lines = lines_of(machine(Path()) if name == "small" else name, columns)
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "…" in line]


def test_the_numbers_of_a_profile_are_there() -> None:
    """Capacities, peaks, parameters, range and errors, each with its unit."""
    text = "\n".join(lines_of("h200-sxm", 80))
    for told in (
        "h200-sxm: NVIDIA H200 SXM5, 141 GB",
        "peak bf16 arithmetic   989 TFLOP/s",
        "launch 2.94 us",
        "launch per k 687 ps",
        "memory 4.04 TB/s",
        "n 256..65536",
        "KV 1.02 kB..4.29 GB",
        "8 GPUs 3.07 us..2.04 ms",
        "p90 10.1 %",
        "1264 points",
    ):
        assert told in text


def test_each_source_is_told_once() -> None:
    """Curves with one source share its number."""
    text = "\n".join(lines_of(machine(Path()), 80))
    assert text.count("fitted: timed by hand") == 1
    assert text.count("source 2") == 5
    assert " 1 measured: the fastest points" in text


def test_a_machine_of_ones_own() -> None:
    """The environment is told as it is, small rates have their own prefix, tables their ends."""
    text = "\n".join(lines_of(machine_with_points(Path()), 80))
    assert "two cores [by hand]" in text
    assert " device  a processor [boxed]" in text
    assert "points beside the profile: machine.parquet" in text
    for told in ("40 GFLOP/s", "10 GB/s", "gemm-by-rows", "rows 1..64", "weight 500 ps..8 ns"):
        assert told in text


def drawn(name: object, target: str) -> bytes:
    """The figure that --plot writes."""
    answer = call("show", "hardware", name, "--plot", target)
    assert (answer.code, answer.err) == (0, "")
    return Path(target).read_bytes()


@pytest.mark.parametrize(("name", "panels"), [("h200-sxm", 8), ("small", 5)])
def test_the_figure(name: str, panels: int) -> None:
    """A well-formed SVG with a title, a description and a panel per kernel, nowhere infinite."""
    Path("there").mkdir()
    content = drawn(machine_with_points(Path("there")) if name == "small" else name, "figure.svg")
    root = ET.fromstring(content)  # noqa: S314 (our own)
    title, description = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert title is not None
    assert description is not None
    assert str(title.text).startswith("small-machine" if name == "small" else name)
    words = str(description.text)
    lacks = "no points lie beside the profile" in words
    assert lacks == (name == "h200-sxm")
    assert ("held out" in words) != lacks
    used = [
        group
        for group in root.iter(f"{SVG}g")
        if group.get("id", "").startswith("axes_") and group.find(f"{SVG}g") is not None
    ]
    assert len(used) == panels
    for path in root.iter(f"{SVG}path"):
        assert not re.search("nan|inf", path.get("d", ""))


def test_equal_profiles_give_equal_figures() -> None:
    """Nothing of the clock or of hashing is in the file."""
    path = machine(Path())
    assert drawn(path, "one.svg") == drawn(path, "two.svg")


def test_the_figure_as_pixels() -> None:
    """The suffix says which kind of file is written; the tables are printed beside it."""
    assert drawn(machine(Path()), "figure.png").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("figure.pdf", ["figure.pdf", ".svg or .png"]),
        ("figure", ["figure", ".svg or .png"]),
        ("folder.svg", ["folder.svg", "cannot be written"]),
    ],
)
def test_figures_that_cannot_be(target: str, words: list[str]) -> None:
    """Another kind of file or a place that is not there is told, and nothing is printed."""
    Path("folder.svg").mkdir()
    answer = call("show", "hardware", "h200-sxm", "--plot", target)
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err for word in words)


def test_only_hardware_has_a_figure() -> None:
    """To ask for the figure of a model is a wrong command line."""
    answer = call("show", "models", "qwen3-8b", "--plot", "figure.svg")
    assert answer.code == 2
    assert "hardware" in answer.err


def refused(*words: str) -> None:
    """Drawing the machine ends with one message of *words*, without a figure; tables do not."""
    answer = call("show", "hardware", "./machine.yaml", "--plot", "figure.svg")
    assert (answer.code, answer.out) == (1, "")
    assert all(word in answer.err for word in ("machine.parquet", *words)), answer.err
    assert not Path("figure.svg").exists()
    assert call("show", "hardware", "./machine.yaml").code == 0


def test_points_that_cannot_be_read() -> None:
    """A points file that is missing, a folder, or no Parquet is told by its name."""
    points = machine_with_points(Path()).with_suffix(".parquet")
    points.unlink()
    refused("cannot be read: No such file")
    points.mkdir()
    refused("is a folder")
    points.rmdir()
    points.write_text("kernel,seconds\n", encoding="utf-8")
    refused("is no Parquet file")
    points.write_bytes(b"")
    refused("is no Parquet file")


def test_points_that_are_none() -> None:
    """Columns that are missing and times that are none are told with their rows."""
    points = machine_with_points(Path()).with_suffix(".parquet")
    table = pd.read_parquet(points)
    table.drop(columns=["seconds", "precision"]).to_parquet(points)
    refused("has no column precision, seconds")
    table.drop(columns="kv_heads").to_parquet(points)
    refused("attention_extend points have no column kv_heads")
    table.assign(seconds=table["seconds"].where(table["kernel"] != "gemm", -1.0)).to_parquet(points)
    refused("gemm points", "seconds of row 0: -1.0")
    table.iloc[:0].to_parquet(points)
    assert call("show", "hardware", "./machine.yaml", "--plot", "figure.svg").code == 0


def test_points_are_beside_the_profile_wherever_it_is() -> None:
    """The name of the points' file is read from the profile's folder, not from here."""
    there = Path("there")
    there.mkdir()
    path = machine_with_points(there)
    shutil.move(there / "machine.parquet", "machine.parquet")
    answer = call("show", "hardware", path, "--plot", "figure.svg")
    assert answer.code == 1
    assert "there/machine.parquet" in answer.err


def test_ticks_are_round_and_few() -> None:
    """1, 2, 5 within two decades, tens to six, every second ten beyond; never none."""
    assert ticks(3e9, 6e10) == [5e9, 1e10, 2e10, 5e10]
    assert ticks(0.5, 5e3) == [1.0, 10.0, 100.0, 1e3]
    assert ticks(50.0, 2e9) == [1e2, 1e4, 1e6, 1e8]
    assert [tick_words(unit)(1e4) for unit in ("B", "B/s", "tokens")] == [
        "10 kB",
        "10 kB/s",
        "10,000",
    ]
    assert tick_words("s")(1e-5) == "10 us"
    assert len(set(ordered_colours(6))) == 6


def test_quantities_say_their_unit() -> None:
    """The last word of a name is its unit."""
    assert quantity("launch_s", 2.94e-6) == ("launch", "2.94 us")
    assert quantity("launch_per_k_s", 6.9e-10) == ("launch per k", "690 ps")
    assert quantity("row_bytes_per_s", 1.5e10) == ("row", "15 GB/s")
    assert quantity("flop_per_s", 7.7e14) == ("compute", "770 TFLOP/s")
    assert quantity("bytes_moved", 1536.0) == ("moved", "1.54 kB")
    assert quantity("launch_k_limit", 4684.3) == ("launch k limit", "4684")
    assert quantity("roof_power", 2.806) == ("roof power", "2.81")


def test_items_stay_whole_when_packed() -> None:
    """As many on a line as fit, each line no longer than the width."""
    assert packed(["one", "two", "three"], 8) == ["one, two", "three"]
    assert packed(["longer than that", "b"], 8) == ["longer than that", "b"]
